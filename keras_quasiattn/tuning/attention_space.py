"""The attention of a model of one's own as hyperparameters of KerasTuner."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras_tuner

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.errors import UserError
from keras_quasiattn.tuning.choices import choices_of


def choose_attention(
    hp: keras_tuner.HyperParameters,
    attention: Iterable[str] | Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    *,
    name: str = "attention",
) -> dict[str, Any]:
    """Declares which attention to use, and its options, as hyperparameters; returns the choice.

    Call it in the function that builds your model and give that function to any tuner of
    KerasTuner: no task, run folder or other part of this package is needed. The hyperparameters are
    `name` and, active only where that attention is chosen, "`name`.ATTENTION.OPTION". Values of one
    option may have several types, such as `{"entmax": {"alpha": [1.5, "learned"]}}`; KerasTuner,
    whose choices have one, then shows their JSON.

    Args:
        hp: the hyperparameters that KerasTuner gives to the function.
        attention: names as for `layers.TransformerEncoder`, whose options get the values that each
            mechanism names for a search; or a dict from names to the values by option, {} for the
            defaults alone. None means all names.
        name: name of the hyperparameter; another one for each attention that a model chooses by
            itself. Defaults to "attention".

    Returns:
        `{"attention": ..., "attention_options": {...}}`: arguments of `layers.TransformerEncoder`,
        `TransformerDecoder`, the models and `models.swap_attention`.

    Raises:
        UserError: a name or option is unknown, or there is nothing to choose from.

    Example:
    >>> import keras_tuner
    >>> from keras_quasiattn.layers import TransformerEncoder
    >>> def build(hp):
    ...     choice = choose_attention(hp, {"softmax": {}, "coda": {"alpha": [0.5, 1.0]}})
    ...     x = keras.Input((4, 8))
    ...     y = TransformerEncoder(intermediate_dim=8, num_heads=2, **choice)(x)
    ...     model = keras.Model(x, y)
    ...     model.compile("adam", "mse")
    ...     return model
    >>> tuner = keras_tuner.RandomSearch(build, "val_loss", max_trials=2, directory="/tmp/never")
    >>> [space.name for space in tuner.oracle.get_space().space]
    ['attention', 'attention.coda.alpha']
    """
    spaces = _spaces(attention)
    chosen = hp.Choice(name, list(spaces))
    options = {}
    for one, space in spaces.items():
        with hp.conditional_scope(name, [one]):
            for option, choices in space.items():
                choice = hp.Choice(f"{name}.{one}.{option}", list(choices))
                if one == chosen:
                    # A value that `hp.Fixed` set stands for itself.
                    options[option] = choices.get(choice, choice)
    return {"attention": chosen, "attention_options": options}


def _spaces(
    attention: Iterable[str] | Mapping[str, Mapping[str, Sequence[Any]]] | None,
) -> dict[str, dict[str, dict[Any, Any]]]:
    """Returns the choices of each option, by the name of the attention."""
    wanted = sorted(ATTENTIONS) if attention is None else attention
    wanted = [wanted] if isinstance(wanted, str) else wanted
    for name in wanted:
        if name not in ATTENTIONS:
            raise UserError.unknown("attention", name, ATTENTIONS)
    if not isinstance(wanted, Mapping):
        wanted = {name: ATTENTIONS[name].options_class.search_space for name in wanted}
    if not wanted:
        raise UserError(f"attention is empty: name at least one of {sorted(ATTENTIONS)}")
    spaces: dict[str, dict[str, dict[Any, Any]]] = {}
    for name, space in wanted.items():
        known = ATTENTIONS[name](num_heads=1, key_dim=1).get_config()
        for option in space:
            if option not in known:
                raise UserError.unknown(f"option of {name}", option, known)
        spaces[name] = {
            option: choices_of(f"{name}'s {option}", values) for option, values in space.items()
        }
    return spaces
