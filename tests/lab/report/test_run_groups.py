"""Which runs of a report share a curve and a name."""

import warnings

import pytest

from keras_quasiattn.lab.report.write_report import (
    _common,
    _curves,
    _facts,
    _title,
    differences_of,
    groups_of,
)
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.report.figures import curves_of, learning_curves, line_of

ROW = {"step": 1, "mean": 1.0, "least": 0.9, "largest": 1.1, "runs": 1}
CURVE = [ROW, {**ROW, "step": 2}]


def run(
    folder,
    name,
    *,
    seed=0,
    model="bilstm_gated",
    data="a.tsv sha256:1",
    version="0.1.0",
    loss=1.0,
    **options,
):
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


def test_seeds_alone_are_averaged(tmp_path):
    runs = [run(tmp_path, str(seed), seed=seed, loss=float(seed)) for seed in range(3)]
    (group,) = groups_of(runs)
    assert (group.name, list(group.runs)) == ("classify own bilstm_gated", runs)
    curve = curves_of([(group.label, one.history()) for one in group.runs], "loss")
    assert curve["bilstm_gated"][0]["runs"] == 3


def test_runs_on_other_data_or_with_other_options_shared_a_curve_with_a_band(tmp_path):
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
    assert second == "bilstm_gated (second)" and fifth == "bilstm_soft"
    assert third == "bilstm_gated (third)"  # seeds 0 and 1, whose folders have nothing in common
    assert fourth == "bilstm_gated (fourth)"
    names, *columns = zip(*differences_of(groups), strict=True)  # a row per group: there are more
    assert names == ("", first, second, third, fourth)
    assert ("model.units", "8", "8", "16", "8") in columns
    assert ("data version", "a.tsv sha256:1", "b.tsv sha256:2", *["a.tsv sha256:1"] * 2) in columns
    assert len({first, second, third, fourth, fifth}) == 5
    (section,) = _curves(groups)
    assert section.title == "Learning curves: classify own"


def test_labels_were_hashes_and_are_the_names_of_the_folders(tmp_path):
    """Also where runs differ in the digest of vectors or data, and where folders have one name."""
    for parent in ("a", "b"):
        (tmp_path / parent).mkdir()
    runs = [
        run(tmp_path / "a", "mine", data="x.tsv sha256:00e0a68931b82e36"),
        run(tmp_path / "b", "mine", data="x.tsv sha256:ffffffffffffffff"),
        run(tmp_path, "glove-seed0", **{"data.vectors": "glove.txt"}),
        run(tmp_path, "glove-seed1", seed=1, **{"data.vectors": "glove.txt"}),
    ]
    labels = [group.label for group in groups_of(runs)]
    assert [label.rpartition("/")[2] for label in labels] == ["mine)", "mine)", "glove)"]
    assert "a/mine" in labels[0] and "b/mine" in labels[1]
    assert not any("sha256" in label for label in labels)
    single = groups_of(runs[2:])
    assert [group.label for group in single] == ["bilstm_gated"] and differences_of(single) == []


def test_seeds_10_and_11_were_named_seed1():
    assert _common(["trec-seed10", "trec-seed11"]) == "trec"
    assert _common(["seed1", "seed12"]) == "seed1"  # nothing else to name them by


def test_the_number_of_texts_was_rounded_to_four_digits(tmp_path):
    made = run(tmp_path, "mine")
    made.write_metrics("test", {"texts": 46248, "accuracy": 0.91666})
    assert _facts(made)[1].endswith("test texts 46,248, test accuracy 0.917")


def test_many_runs_made_a_title_of_ten_lines_and_a_table_beyond_the_page(tmp_path):
    runs = [run(tmp_path, f"run{number:02}", **{"model.units": number}) for number in range(15)]
    assert _title([one.path.name for one in runs]) == (
        "Report: run00, run01, run02, run03 and 11 more"
    )
    assert _title(["a", "a", "b"]) == "Report: a, b"
    table = differences_of(groups_of(runs))
    assert (len(table), table[0]) == (16, ["", "model.units"])
    few = differences_of(groups_of([*runs[:1], run(tmp_path, "x", version="2", **{"a.b": 1})]))
    assert len(few[0]) == 3  # a row per option


def test_many_differences_have_a_table_of_an_end(tmp_path):
    options = {f"model.option_{number:02}": 0 for number in range(30)}
    runs = [
        run(tmp_path, "first", **options),
        run(tmp_path, "second", **dict.fromkeys(options, "x" * 500)),
    ]
    head, *rows = differences_of(groups_of(runs))
    assert head == ["", "bilstm_gated (first)", "bilstm_gated (second)"]
    assert len(rows) == 21 and rows[-1] == ["10 more", "", ""]
    assert max(len(cell) for row in rows for cell in row) <= 60


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12])
def test_long_names_of_several_runs_collapsed_the_axes(count):
    curves = {f"{number} {'a long name of a run ' * 9}": CURVE for number in range(count)}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Matplotlib warns where a layout leaves no axes
        drawn = learning_curves("loss", "loss", curves)
        assert drawn.png.startswith(b"\x89PNG")
    shown = drawn.light.decode()
    assert ("mean of the runs" in drawn.caption, "shaded" in drawn.caption) == (False, False)
    assert all(f"{number} a long" in shown for number in range(count)) == (count > 1)


def test_a_caption_named_the_mean_of_the_runs_of_a_single_run():
    alone, several = (
        learning_curves("loss", "loss", {"a": [{**ROW, "runs": runs}]}) for runs in (1, 2)
    )
    assert "mean" not in alone.caption and "the mean of the runs, shaded" in several.caption


def test_a_model_has_one_colour_in_all_figures():
    drawn = learning_curves("loss", "loss", {"b": CURVE}, ["a", "b"], small=True)
    assert line_of(1)["light"] in drawn.light.decode() and line_of(1)["dark"] in drawn.dark.decode()
    assert line_of(0)["light"] not in drawn.light.decode()
