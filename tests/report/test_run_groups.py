"""Which runs of a report share a curve and a name."""

from pathlib import Path
from typing import Any

from keras_quasiattn.report.learning_curves import curves_of
from keras_quasiattn.report.report_writer import _curves
from keras_quasiattn.report.run_groups import groups_of
from keras_quasiattn.training import RunFolder


def run(
    folder: Path,
    name: str,
    *,
    seed: int = 0,
    model: str = "bilstm_gated",
    data: str = "a.tsv sha256:1",
    version: str = "0.1.0",
    loss: float = 1.0,
    **options: Any,
) -> RunFolder:
    made = RunFolder(
        folder / name,
        {
            "task": "classify",
            "task_config": {
                "preset": "own",
                "model": model,
                "seed": seed,
                "options": {"model.units": 8, "data.train": f"{name}.tsv", **options},
            },
            "options": {"policy": "float32"},
            "data": {"version": data},
            "versions": {"keras_quasiattn": version},
        },
    )
    made.path.mkdir()
    made.write_history([{"step": 5, "loss": loss, "val_loss": loss}])
    return made


def test_seeds_alone_are_averaged(tmp_path: Path) -> None:
    runs = [run(tmp_path, str(seed), seed=seed, loss=float(seed)) for seed in range(3)]
    (group,) = groups_of(runs)
    assert (group.name, list(group.runs)) == ("classify own bilstm_gated", runs)
    curve = curves_of([(group.label, one.history()) for one in group.runs], "loss")
    assert curve["bilstm_gated"][0]["runs"] == 3


def test_runs_on_other_data_or_with_other_options_shared_a_curve_with_a_band(
    tmp_path: Path,
) -> None:
    runs = [
        run(tmp_path, "first"),
        run(tmp_path, "second", data="b.tsv sha256:2"),
        run(tmp_path, "third", **{"model.units": 16}),
        run(tmp_path, "fourth", version="0.2.0"),
        run(tmp_path, "fifth", model="bilstm_soft"),
        run(tmp_path, "sixth", seed=1, **{"model.units": 16}),
    ]
    groups = groups_of(runs)
    assert [[one.path.name for one in group.runs] for group in groups] == [
        ["first"],
        ["second"],
        ["third", "sixth"],
        ["fourth"],
        ["fifth"],
    ]
    first, second, third, fourth, fifth = (group.label for group in groups)
    differences = "data version b.tsv sha256:2, model.units 8, version of keras_quasiattn 0.1.0"
    assert second == f"bilstm_gated ({differences})"
    assert "model.units 16" in third and "0.2.0" in fourth and fifth == "bilstm_soft"
    assert len({first, second, third, fourth, fifth}) == 5
    (section,) = _curves(groups)
    assert section.title == "Learning curves: classify own"


def test_groups_whose_names_would_be_the_same_get_the_name_of_a_folder(tmp_path: Path) -> None:
    options = [f"model.option_{letter}" for letter in "abcd"]
    runs = [
        run(tmp_path, "first", **dict.fromkeys(options, 0)),
        run(tmp_path, "second", **{**dict.fromkeys(options, 0), options[3]: 1}),
        run(tmp_path, "third", **dict.fromkeys(options, 1)),
    ]
    first, second, third = (group.label for group in groups_of(runs))
    assert first.endswith("model.option_c 0, 1 more)") and second == f"{first} (second)"
    assert third.endswith("model.option_c 1, 1 more)")
