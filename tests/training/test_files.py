from pathlib import Path

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
