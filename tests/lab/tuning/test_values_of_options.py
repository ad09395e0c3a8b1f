"""Searches over values of several types, which KerasTuner's own choices reject."""

import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.tuning import search, search_space


@pytest.mark.parametrize("method", ["random", "bayesian"])
def test_values_of_two_types_were_a_type_error_after_the_record_was_written(
    task, trainings, tmp_path, method
):
    trainings.figure = lambda options: options["training.clip_norm"] or 9.0
    wanted = {"training.clip_norm": "none, 1.0", "training.jit_compile": "true,false"}
    space = search_space(task, wanted)
    assert space == {"training.clip_norm": [None, 1.0], "training.jit_compile": [True, False]}
    for _ in range(2):  # the second search finds the first one's record and trains nothing
        found = search(task, space, tmp_path / "one", method=method, trials=4, progress=False)
    options = found.config["task_config"]["options"]
    assert options["training.clip_norm"] is None
    asked = [options for _, options in trainings.asked]
    assert len(asked) == 4
    assert {type(one["training.jit_compile"]) for one in asked} == {bool}
    assert {one["training.clip_norm"] for one in asked} == {None, 1.0}


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"model.units": [4, object()]}, "is among the values of model.units: give texts"),
        ({"model.units": []}, r"the values of model.units are \[\]: give a list"),
        ({"model.units": "48"}, "the values of model.units are '48': give a list"),
        ({"model.unit": [4, 8]}, r"unknown option 'model.unit' \(did you mean 'model.units'"),
    ],
)
def test_a_space_that_is_none_binds_no_folder(task, tmp_path, space, message):
    with pytest.raises(UserError, match=message):
        search(task, space, tmp_path / "search")
    assert not (tmp_path / "search").exists()
