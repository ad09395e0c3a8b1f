"""`compare_task` on every task: costs, runs, baselines, verdicts, page and best run."""

import json

import pytest
from tools import long_except

from keras_quasiattn.lab.comparison.of_task import compare_task
from keras_quasiattn.lab.tasks import available
from keras_quasiattn.lab.training import RunFolder

SHORT = {"training__steps": 4, "training__checkpoint_every": 2, "training__warmup_steps": 0}


SIMPLE = {"classify": ["majority", "bag of words"], "pairs": ["majority", "bag of words"]}
SIMPLE["rank"] = ["bag of words"]


# In CI, one by a metric of the whole set; test_compare_command.py has one by the mean of items,
# with baselines.
@pytest.mark.long
@pytest.mark.parametrize("name", long_except(available(), "translate", others=pytest.mark.complete))
@pytest.mark.usefixtures("in_this_process")
def test_a_task_is_compared(name, tiny_task, tmp_path, request):
    if name == "translate":  # in CI, the comparison that is killed begins in graphs
        request.getfixturevalue("eagerly")
    task = tiny_task(name, **SHORT)
    folder = tmp_path / "compared"
    options = {"seeds": 1, "rates": [0.01], "limit": 6, "progress": False}
    found = compare_task(task, folder, ["sigmoid"], **options, command=["quasiattn", "compare"])
    assert [one.name for one in found.entries] == ["softmax", "sigmoid", *SIMPLE.get(name, [])]
    assert not any(one.errors for one in found.entries)
    for one in found.entries[:2]:
        assert sorted(one.figures) == [task.seed] and one.rate == "0.01"
        assert {"step", "answer", "memory", "weights"} <= one.costs.keys()
    assert all(found.difference(one) is not None for one in found.entries[1:])
    assert "one seed: no verdict" in found.table() and "Rate: 0.01 for all." in found.table()
    page = (folder / "comparison.html").read_text()
    assert page.count("image/svg+xml") >= 4 and "sigmoid" in page
    assert (folder / "comparison.md").read_text().startswith(f"# {name} on ")
    assert RunFolder.open(folder / "best", finished=True).config["task"] == name
    records = (folder / "comparison.jsonl").read_text()

    # Started again, it measures nothing a second time.
    again = compare_task(task, folder, ["sigmoid"], **options)
    assert again.table() == found.table() and (folder / "comparison.jsonl").read_text() == records
    assert all(json.loads(line)["split"] == "test, first 6" for line in records.splitlines())
