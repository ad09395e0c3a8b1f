import pytest

from keras_quasiattn.errors import FileError
from keras_quasiattn.lab.training.checkpoints import Curves


def test_a_folder_that_cannot_be_written_counted_as_a_failed_trial_of_a_search(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(FileError, match=rf"^cannot write {tmp_path}/file/tensorboard: [^\n]+$"):
        Curves(tmp_path / "file" / "tensorboard", [])
    assert (tmp_path / "file").read_text() == "kept"


def test_new_curves_take_the_place_of_old_ones(tmp_path):
    for _ in range(2):
        Curves(tmp_path, [{"step": 1, "loss": 2.0, "val_loss": 3.0}]).close()
    assert len(list((tmp_path / "training").iterdir())) == 1
    assert len(list((tmp_path / "validation").iterdir())) == 1
