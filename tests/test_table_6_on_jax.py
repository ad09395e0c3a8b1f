"""`benchmarks/table_6_on_jax.py`: prepare with TensorFlow, train in parts and measure without."""

import json

import numpy as np
import pytest
import warm
from test_accelerator import WITHOUT_TENSORFLOW

# Run commands with checkpoints every two updates.
SMALL = """
import json, sys
from benchmarks import table_6_on_jax as example
example.PERIOD, example.EVERY, example.STEPS = 2, 2, int(sys.argv[1])
for words in json.loads(sys.argv[2]):
    example.main(words)
assert "tensorflow" not in sys.modules
"""


def run(tmp_path, steps, *commands):
    words = ["-c", SMALL, steps, json.dumps(commands, default=str)]
    warm.printed(words, warm.fresh, [tmp_path], {"KERAS_BACKEND": "jax"}, cwd=warm.ROOT)


@pytest.mark.complete
def test_a_run_goes_on_where_it_stopped_without_tensorflow(tmp_path):
    from benchmarks import table_6_on_jax as example

    data, folder = tmp_path / "mlu.npz", tmp_path / "run"
    example.main(["prepare", str(data), "--questions", "16", "--test", "8"])
    with np.load(data) as arrays:
        assert arrays["train_source"].shape == (16, 20) and arrays["test_target"].shape == (8, 8)
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TENSORFLOW)
    words = ("train", data, folder, "--model", "coda_learned", "--batch", "4", "--minutes", "30")
    run(tmp_path, 4, words)
    assert [example.updates_of(path) for path in example.kept_weights(folder)] == [2, 4]
    run(tmp_path, 6, words, ("measure", data, folder))  # only two updates more
    assert (folder / "history.csv").read_text().count("\n") == 1 + 3
    found = json.loads((folder / "result.json").read_text())
    assert found["updates"] == 6 and found["weights averaged"] == 3 and found["questions"] == 8
