"""A manifest lists the hashes of files, and a file that has another hash is refused."""

import json

import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import check_hashes, hashes


@pytest.mark.parametrize("listed", ["0" * 64, "f" * 64])
def test_another_hash_is_refused_whether_it_is_greater_or_less(listed, tmp_path):
    file, manifest = tmp_path / "model.keras", tmp_path / "manifest.json"
    file.write_bytes(b"weights")
    manifest.write_text(json.dumps(hashes({"model.keras": file})))
    check_hashes(manifest, tmp_path)
    manifest.write_text(json.dumps({"model.keras": listed}))
    with pytest.raises(UserError, match=r"model.keras is not the file that .* lists"):
        check_hashes(manifest, tmp_path)


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "../model.keras", "/dev/zero", "none", ""])
def test_a_name_that_can_be_no_file_was_a_traceback(name, tmp_path):
    manifest = tmp_path / "manifest.json"
    manifest.write_text(json.dumps({name: "0" * 64}))
    with pytest.raises(UserError, match=r"manifest.json lists '.*', which is not a file of "):
        check_hashes(manifest, tmp_path)
