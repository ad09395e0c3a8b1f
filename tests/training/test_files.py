import os
from pathlib import Path
from typing import Any

import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.training.files import replacing, write_json


def test_file_takes_its_place_only_when_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "file.json"
    with replacing(target) as temporary:
        temporary.write_text("[1]")
        assert temporary.parent == target.parent
        assert not target.exists()
    assert target.read_text() == "[1]"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError("bug"), OSError(28, "No space left on device")])
def test_failure_keeps_the_old_content(tmp_path: Path, error: Exception) -> None:
    target = tmp_path / "file.json"
    write_json(target, "old")
    expected = UserError if isinstance(error, OSError) else ValueError
    with pytest.raises(expected) as caught, replacing(target) as temporary:
        temporary.write_text("half")
        raise error
    assert target.read_text() == '"old"\n'
    assert list(tmp_path.iterdir()) == [target]
    if expected is UserError:
        assert str(caught.value) == f"cannot write {target}: No space left on device"


def test_power_failure_after_the_renaming_loses_neither_content_nor_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The content reaches the disk before the file takes its place, and the folder that has its name after it."""
    done: list[tuple[Any, ...]] = []
    fsync, replace = os.fsync, os.replace

    def name_of(descriptor: int) -> Path:
        return Path(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(os, "fsync", lambda number: (done.append(("sync", name_of(number))), fsync(number)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append(("replace", *names)), replace(*names)))
    target = tmp_path / "file.json"
    with replacing(target) as temporary:
        temporary.write_text("whole")
    assert done == [("sync", temporary), ("replace", temporary, target), ("sync", tmp_path)]
    assert target.read_text() == "whole"


def test_value_that_is_no_json_keeps_the_old_content(tmp_path: Path) -> None:
    target = tmp_path / "file.json"
    write_json(target, {"old": [1]})
    with pytest.raises(TypeError):
        write_json(target, {"new": object()})
    assert target.read_text() == '{\n  "old": [\n    1\n  ]\n}\n'
    assert list(tmp_path.iterdir()) == [target]
