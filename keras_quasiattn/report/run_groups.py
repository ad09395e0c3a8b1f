"""Which runs of a report are the same but for their seed, and what to call the others."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_quasiattn.tasks.held_out import SPLITS
from keras_quasiattn.training import RunFolder
from keras_quasiattn.training.config import flat

_SHOWN, _LONGEST = 3, 60  # differences in a name, and characters of each
# The version of the data has a digest of these files, so their paths do not matter.
_PATHS = {f"data.{split}" for split in SPLITS}


@dataclasses.dataclass(frozen=True)
class RunGroup:
    """Runs of one model on one data set with the same options and versions; only seeds differ.

    Args:
        source: the task and the preset.
        label: the model, and what sets it apart from other groups of that model.
        runs: the runs, in the order that they were given.
    """

    source: tuple[str, str]
    label: str
    runs: Sequence[RunFolder]

    @property
    def name(self) -> str:
        """The name of the group on the page."""
        return " ".join((*self.source, self.label))


def groups_of(folders: Sequence[RunFolder]) -> list[RunGroup]:
    """The groups of some runs, in the order of their first runs."""
    found: dict[str, tuple[dict[str, Any], list[RunFolder]]] = {}
    for folder in folders:
        traits = _traits(folder.config)
        found.setdefault(repr(sorted(traits.items())), (traits, []))[1].append(folder)
    groups: list[RunGroup] = []
    for traits, runs in found.values():
        alike = [other for other, _ in found.values() if _base(other) == _base(traits)]
        task, preset, model = _base(traits)
        label = _label(model, traits, alike)
        if any((group.source, group.label) == ((task, preset), label) for group in groups):
            label = f"{label} ({runs[0].path.name})"
        groups.append(RunGroup((task, preset), label, runs))
    return groups


def _traits(config: Mapping[str, Any]) -> dict[str, Any]:
    """All that sets a run apart, except its seed."""
    data = config.get("data") or {}
    traits = flat(config)
    traits.pop("seed", None)
    if data.get("version"):
        traits = {name: value for name, value in traits.items() if name not in _PATHS}
    versions = {f"version of {name}": value for name, value in config["versions"].items()}
    return {**traits, **{f"data {name}": value for name, value in data.items()}, **versions}


def _base(traits: Mapping[str, Any]) -> tuple[str, str, str]:
    return traits["task"], traits.get("preset", ""), traits.get("model", "")


def _label(model: str, traits: Mapping[str, Any], alike: Sequence[Mapping[str, Any]]) -> str:
    names = sorted(set().union(*alike))
    differing = [name for name in names if any(one.get(name) != traits.get(name) for one in alike)]
    if not differing:
        return model
    told = [f"{name} {traits.get(name)}"[:_LONGEST] for name in differing[:_SHOWN]]
    more = [f"{len(differing) - _SHOWN} more"] if len(differing) > _SHOWN else []
    return f"{model} ({', '.join(told + more)})"
