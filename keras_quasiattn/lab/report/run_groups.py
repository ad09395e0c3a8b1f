"""Group the runs of a report that differ only in their seed, and name the groups."""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from keras_quasiattn.lab.tasks.preset import SPLITS
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.lab.training.config import flat

_SHOWN, _LONGEST = 20, 60  # largest number of differences in a table, and of characters in each
# The version of the data has a digest of these files, so their paths do not matter.
_PATHS = {f"data.{split}" for split in SPLITS}


@dataclasses.dataclass(frozen=True)
class RunGroup:
    """Runs of one model on one data set with the same options and versions; only seeds differ."""

    source: tuple[str, str]
    label: str
    runs: Sequence[RunFolder]
    differing: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the group on the page."""
        return " ".join((*self.source, self.label))


def groups_of(folders: Sequence[RunFolder]) -> list[RunGroup]:
    """Group runs that differ only in their seed, in the order of their first runs."""
    found: dict[str, tuple[dict[str, Any], list[RunFolder]]] = {}
    for folder in folders:
        traits = _traits(folder.config)
        found.setdefault(repr(sorted(traits.items())), (traits, []))[1].append(folder)
    folder_names = _folder_names([runs for _, runs in found.values()])
    groups: list[RunGroup] = []
    for (traits, runs), name in zip(found.values(), folder_names, strict=True):
        alike = [other for other, _ in found.values() if _base(other) == _base(traits)]
        task, preset, model = _base(traits)
        label = model if len(alike) == 1 else f"{model} ({name})"
        groups.append(RunGroup((task, preset), label, runs, _differing(traits, alike)))
    return groups


def differences_of(groups: Sequence[RunGroup]) -> list[list[str]]:
    """Return a table of the differences between groups of one model; empty if there are none.

    It has a row per option, or a row per group if there are more groups than fit side by side.
    """
    apart = [group for group in groups if group.differing]
    names = list(dict.fromkeys(name for group in apart for name in group.differing))
    rows = [[name, *(group.differing.get(name, "") for group in apart)] for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        rows.append([f"{len(names) - _SHOWN} more", *("" for _ in apart)])
    if not rows:
        return []
    table = [["", *(group.label for group in apart)], *rows]
    return [list(cells) for cells in zip(*table, strict=True)] if len(apart) > len(rows) else table


def _traits(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that distinguishes a run, except its seed."""
    data = config.get("data") or {}
    traits = flat(config)
    traits.pop("seed", None)
    if data.get("version"):
        traits = {name: value for name, value in traits.items() if name not in _PATHS}
    versions = {f"version of {name}": value for name, value in config["versions"].items()}
    return {**traits, **{f"data {name}": value for name, value in data.items()}, **versions}


def _base(traits: Mapping[str, Any]) -> tuple[str, str, str]:
    return traits["task"], traits.get("preset", ""), traits.get("model", "")


def _differing(traits: Mapping[str, Any], alike: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    names = sorted(set().union(*alike))
    differing = [name for name in names if any(one.get(name) != traits.get(name) for one in alike)]
    texts = {name: str(traits.get(name, "—")) for name in differing}
    return {
        name: text if len(text) <= _LONGEST else f"…{text[1 - _LONGEST :]}"
        for name, text in texts.items()
    }


def _folder_names(groups: Sequence[Sequence[RunFolder]]) -> list[str]:
    """Return the common part of each group's folder names, with parent folders if two are equal.

    For "trec-seed0" and "trec-seed1" that is "trec".
    """
    deepest = max((len(run.path.parts) for one in groups for run in one), default=0)
    for parts in range(1, deepest + 1):
        names = [_common(["/".join(run.path.parts[-parts:]) for run in one]) for one in groups]
        if len(set(names)) == len(names):
            return names
    return [str(one[0].path) for one in groups]


def _common(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    prefix = "".join(letters[0] for letters in alike)
    return re.sub(r"[-_.]*(seed)?[-_.]*$", "", prefix) or names[0]
