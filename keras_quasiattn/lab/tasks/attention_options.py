"""The task options that choose and configure the attention of a model."""

from collections.abc import Mapping
from typing import Any

BASELINE = "softmax"
_PREFIX = "model.coda_"
# CoDA's options in runs and records from before `attention_options`, with their defaults.
_OLD_DEFAULTS: Mapping[str, Any] = {
    "alpha": 1.0,
    "beta": 1.0,
    "scaling": "mean",
    "gate_range": "scaled",
    "similarity": "tanh",
    "gate": "sigmoid",
    "center_similarity": False,
}


def attention(name: str = BASELINE, **options: Any) -> dict[str, Any]:
    """Return the model options of an attention: its name, and options that differ from defaults."""
    return {"attention": name, "attention_options": options}


def attention_of(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Separate the attention options of a model: return its other options, and its arguments.

    >>> attention_of({"units": 8, **attention("coda", gate="tanh")})
    ({'units': 8}, {'attention': 'coda', 'attention_options': {'gate': 'tanh'}})
    >>> attention_of({"units": 8, **attention()})
    ({'units': 8}, {'attention': 'softmax', 'attention_options': None})
    """
    others = dict(options)
    if "attention" not in others:
        return others, {}
    name, arguments = others.pop("attention"), others.pop("attention_options")
    return others, {"attention": name, "attention_options": dict(arguments) or None}


def with_todays_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of an old run under today's names, with options added since.

    >>> with_todays_names({"model.units": 8, "model.coda_gate": "tanh", "model.coda_alpha": 1.0})
    {'model.units': 8, 'model.attention': 'coda', 'model.attention_options': {'gate': 'tanh'}}
    """
    found = {name: value for name, value in options.items() if not name.startswith(_PREFIX)}
    if "model.intra_attention" in found:  # a pair model, which did not mark words at the time
        found.setdefault("model.exact_match", False)
    attention = (found.get("model.attention"), found.get("model.attention_options") or {})
    if found.get("model.attention_start") == "unchanged" and attention != (BASELINE, {}):
        # The factors of an added attention had the same rate as all other weights.
        found.setdefault("model.factor_rate", found["training.learning_rate"])
    old = {name.removeprefix(_PREFIX): options[name] for name in options.keys() - found.keys()}
    if not old:
        return found
    if old.pop("learned", False):
        old |= {"alpha": "learned", "beta": "learned"}
    changed = {name: old[name] for name in sorted(old) if old[name] != _OLD_DEFAULTS[name]}
    return {**found, "model.attention": "coda", "model.attention_options": changed}


def models_with_attention(task: Any) -> list[str]:
    """Return the models of a task whose attention can be chosen and is the baseline by default."""
    preset = next(iter(task.presets.values()))
    return [one for one in task.models if preset.for_model(one).model.get("attention") == BASELINE]
