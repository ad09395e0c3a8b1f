"""Make the attention of any Keras model a hyperparameter of KerasTuner."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras_tuner
import numpy as np

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.errors import UserError


def choose_attention(
    hp: keras_tuner.HyperParameters,
    attention: Iterable[str] | Mapping[str, Mapping[str, Sequence[Any]]] | None = None,
    *,
    name: str = "attention",
    search_options: bool = False,
) -> dict[str, Any]:
    """Declare which attention to use, and its options, as hyperparameters; return the choice.

    Call it in the function that builds your model, and pass that function to any KerasTuner tuner.
    The hyperparameters are `name` and, active only if that attention is chosen,
    "`name`.ATTENTION.OPTION". By default every attention keeps its default options and is tried
    equally often: the best of a hundred configurations of one attention cannot be compared with the
    best of three of another. Values of several types, such as `{"entmax": {"alpha": [1.5,
    "learned"]}}`, are shown as JSON, because KerasTuner's choices have one type.

    Args:
        hp: the hyperparameters that KerasTuner passes to the function.
        attention: names as for `layers.TransformerEncoder`; or a dict from names to the values of
            each option, {} for the defaults only. None (the default) means all names.
        name: name of the hyperparameter. A model with several choices needs a different name for
            each. Defaults to "attention".
        search_options: whether to also search the options of attentions given only by name.
            Attentions propose values of different numbers of options ("coda" seven, "softmax"
            one), so the search finds good options but does not rank attentions. Defaults to False.

    Returns:
        `{"attention": ..., "attention_options": {...}}`: arguments of `layers.TransformerEncoder`,
        `TransformerDecoder`, the models and `models.swap_attention`.

    Raises:
        UserError: a name or option is unknown, there is nothing to choose from, or `search_options`
            is combined with values by option.

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
    spaces = _spaces(attention, search_options)
    chosen = hp.Choice(name, list(spaces))
    options = {}
    for one, space in spaces.items():
        with hp.conditional_scope(name, [one]):
            for option, choices in space.items():
                choice = hp.Choice(f"{name}.{one}.{option}", list(choices))
                if one == chosen:
                    # A value set by `hp.Fixed` is used as is.
                    options[option] = choices.get(choice, choice)
    return {"attention": chosen, "attention_options": options}


def _spaces(
    attention: Iterable[str] | Mapping[str, Mapping[str, Sequence[Any]]] | None,
    search_options: bool,
) -> dict[str, dict[str, dict[Any, Any]]]:
    """Return the choices for each option of each attention."""
    wanted = sorted(ATTENTIONS) if attention is None else attention
    if not isinstance(wanted, Mapping):
        wanted = [wanted] if isinstance(wanted, str) else list(wanted)
    for name in wanted:
        UserError.check("attention", name, ATTENTIONS)
    if isinstance(wanted, Mapping):
        if search_options:
            raise UserError(
                "search_options is True and attention has values by option: give only names, or "
                "leave search_options out"
            )
    else:
        wanted = {
            name: ATTENTIONS[name].options_class.search_space if search_options else {}
            for name in wanted
        }
    if not wanted:
        raise UserError(f"attention is empty: name at least one of {sorted(ATTENTIONS)}")
    spaces: dict[str, dict[str, dict[Any, Any]]] = {}
    for name, space in wanted.items():
        known = ATTENTIONS[name](num_heads=1, key_dim=1).get_config()
        for option in space:
            UserError.check(f"option of {name}", option, known)
        spaces[name] = {
            option: choices_of(f"{name}'s {option}", values) for option, values in space.items()
        }
    return spaces


def choices_of(name: str, values: Iterable[Any]) -> dict[Any, Any]:
    """Map the keys that represent values in KerasTuner to the values.

    KerasTuner's `Choice` has one type and takes booleans for integers. Values that are all strings,
    all integers or all floats are their own keys. A mix of integers and floats gets floats as keys,
    to keep the order known. Anything else gets its JSON as key.

    Raises:
        UserError: there is no value, or one that JSON cannot hold.

    Example:
    >>> choices_of("alpha", [1.5, "learned"])
    {'1.5': 1.5, '"learned"': 'learned'}
    >>> choices_of("heads", [1, 2]), choices_of("clip_norm", [2, 0.5])
    ({1: 1, 2: 2}, {2.0: 2, 0.5: 0.5})
    """
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        raise UserError(f"the values of {name} are {values!r}: give a list with at least one")
    plain = [value.item() if isinstance(value, np.generic) else value for value in values]
    if not plain:
        raise UserError(f"the values of {name} are []: give a list with at least one")
    kinds = set(map(type, plain))
    if len(kinds) == 1 and kinds <= {str, int, float}:
        return {value: value for value in plain}
    if kinds == {int, float}:
        return {float(value): value for value in plain}
    keys = {}
    for value in plain:
        try:
            keys[json.dumps(value)] = value
        except (TypeError, ValueError):
            raise UserError(
                f"{value!r} is among the values of {name}: give texts, numbers, booleans or None"
            ) from None
    return keys
