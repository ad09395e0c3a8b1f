import os
import time
from pathlib import Path
from typing import Any

import pytest

from keras_quasiattn import files
from keras_quasiattn.errors import UserError
from keras_quasiattn.files import atomic_file, atomic_folder, begin, write_json


def test_file_takes_its_place_only_when_whole(tmp_path):
    target = tmp_path / "new" / "file.json"
    with atomic_file(target) as temporary:
        temporary.write_text("[1]")
        assert temporary.parent == target.parent
        assert not target.exists()
    assert target.read_text() == "[1]"
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("error", [ValueError("bug"), OSError(28, "No space left on device")])
def test_failure_keeps_the_old_content(tmp_path, error):
    target = tmp_path / "file.json"
    write_json(target, "old")
    expected = UserError if isinstance(error, OSError) else ValueError
    with pytest.raises(expected) as caught, atomic_file(target) as temporary:
        temporary.write_text("half")
        raise error
    assert target.read_text() == '"old"\n'
    assert list(tmp_path.iterdir()) == [target]
    if expected is UserError:
        assert str(caught.value) == f"cannot write {target}: No space left on device"


def test_power_failure_after_the_renaming_loses_neither_content_nor_name(tmp_path, monkeypatch):
    """The content reaches the disk before the file is renamed, and the folder's entry after it."""
    done: list[tuple[Any, ...]] = []
    fsync, replace = os.fsync, os.replace

    def name_of(descriptor):
        return Path(os.readlink(f"/proc/self/fd/{descriptor}"))

    monkeypatch.setattr(
        os, "fsync", lambda number: (done.append(("sync", name_of(number))), fsync(number))
    )
    monkeypatch.setattr(
        os, "replace", lambda *names: (done.append(("replace", *names)), replace(*names))
    )
    target = tmp_path / "file.json"
    with atomic_file(target) as temporary:
        temporary.write_text("whole")
    assert done == [("sync", temporary), ("replace", temporary, target), ("sync", tmp_path)]
    assert target.read_text() == "whole"


def test_value_that_is_no_json_keeps_the_old_content(tmp_path):
    target = tmp_path / "file.json"
    write_json(target, {"old": [1]})
    with pytest.raises(TypeError):
        write_json(target, {"new": object()})
    assert target.read_text() == '{\n  "old": [\n    1\n  ]\n}\n'
    assert list(tmp_path.iterdir()) == [target]


def test_a_killed_export_left_its_folder_for_ever(tmp_path):
    def begin_and_die():
        with atomic_folder(tmp_path / "1") as temporary:
            temporary.mkdir()
            os._exit(0)

    child = os.fork()
    if not child:
        begin_and_die()
    os.waitpid(child, 0)
    (left,) = tmp_path.iterdir()
    with atomic_folder(tmp_path / "2") as temporary:
        temporary.mkdir()
        assert not left.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == ["2"]


def test_what_another_process_or_machine_is_writing_stays(tmp_path):
    for name in (f".tmp-{os.getppid()}@{files._machine()}-1", ".tmp-4194305@elsewhere-1"):
        (tmp_path / name).mkdir()
    before = set(tmp_path.iterdir())
    with atomic_folder(tmp_path / "1") as temporary:
        temporary.mkdir()
        assert before < set(tmp_path.iterdir())
    yesterday = time.time() - 100_000
    os.utime(tmp_path / ".tmp-4194305@elsewhere-1", (yesterday, yesterday))
    with atomic_folder(tmp_path / "2") as temporary:
        temporary.mkdir()
    assert not (tmp_path / ".tmp-4194305@elsewhere-1").exists()


def test_a_folder_was_renamed_before_its_files_were_on_the_disk(tmp_path, monkeypatch):
    order: list[str] = []
    fsync, rename = os.fsync, Path.rename
    monkeypatch.setattr(
        "os.fsync",
        lambda one: (order.append(Path(os.readlink(f"/proc/self/fd/{one}")).name), fsync(one)),
    )
    monkeypatch.setattr(
        Path, "rename", lambda one, other: (order.append("rename"), rename(one, other))[1]
    )
    with atomic_folder(tmp_path / "1") as temporary:
        (temporary / "variables").mkdir(parents=True)
        (temporary / "variables" / "data").write_text("weights")
    assert set(order[:-2]) == {"data", "variables", temporary.name}
    assert order[-2:] == ["rename", tmp_path.name]


def test_a_killed_export_left_a_part_of_the_servers_file_for_ever(tmp_path):
    """Only temporary files of the same file, and only if no process is still writing them."""
    mine = tmp_path / f".tmp-4194305@{files._machine()}-models.config"  # no process has this number
    another = tmp_path / f".tmp-4194305@{files._machine()}-other.config"
    living = tmp_path / f".tmp-{os.getppid()}@{files._machine()}-models.config"
    for entry in (mine, another, living):
        entry.write_text("half")
    with atomic_file(tmp_path / "models.config") as temporary:
        temporary.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([another, living, tmp_path / "models.config"])


def test_a_note_on_the_data_in_other_words_is_no_other_work(tmp_path):
    data = {"version": "a", "note": "one"}
    begin(tmp_path / "new", "about.json", {"data": data}, "search")
    begin(tmp_path / "new", "about.json", {"data": {**data, "note": "1"}}, "search")
    with pytest.raises(UserError, match="holds a search with data 'a', not 'b'"):
        begin(tmp_path / "new", "about.json", {"data": {**data, "version": "b"}}, "search")
