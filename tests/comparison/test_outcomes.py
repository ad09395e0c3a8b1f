"""Tables of made-up records: means, spreads, baselines, differences, and what chose a setting."""

import json

import pytest
from click.testing import CliRunner

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import write_json_lines
from keras_quasiattn.lab.cli.commands import cli
from keras_quasiattn.lab.comparison.experiments import Row, key_of, read_experiments
from keras_quasiattn.lab.comparison.tables import Recorded, markdown, outcome, terminal
from keras_quasiattn.lab.tasks import describe

FILE = """
task = "classify"
presets = ["trec"]
records = "runs.jsonl"
figures = { accuracy = "accuracy" }
[data]
trec = "TREC"
[[table]]
name = "one"
title = "Gates"
paper = "accuracy"
note = "Six kinds of questions."
rows = [
  { name = "soft", model = "bilstm_soft", paper = ".9008 1.4M" },
  { name = "gated", model = "bilstm_gated", against = "soft" },
  { name = "quoted", paper = ".9" },
]
"""


def record(model, seed, accuracy, split="test", **changed):
    options = describe("classify").presets["trec"].for_model(model).options()
    options |= {"data.vectors": "glove.npz", **changed.pop("options", {})}
    command = f"quasiattn train classify --preset trec --model {model} --seed {seed} --run runs/x"
    return {
        **{"task": "classify", "preset": "trec", "model": model, "seed": seed, "split": split},
        **{"accuracy": accuracy, "options": options, "command": command},
        **changed,
    }


def lines(folder, records, text=FILE):
    (folder / "table.toml").write_text(text, encoding="utf-8")
    written = "".join(json.dumps(one) + "\n" for one in records)
    (folder / "runs.jsonl").write_text(written, encoding="utf-8")
    (table,) = read_experiments(folder / "table.toml")
    return {line.row.name: line for line in outcome(table, Recorded(table.records))}


def pairs(*figures):
    return [
        record(model, seed, value)
        for seed, both in enumerate(figures)
        for model, value in zip(("bilstm_soft", "bilstm_gated"), both, strict=True)
    ]


def test_the_difference_is_that_of_the_same_seeds(tmp_path):
    records = pairs((0.5, 0.52), (0.8, 0.81), (0.2, 0.23))
    found = lines(tmp_path, [*records, record("bilstm_soft", 3, 0.9)])["gated"].difference
    assert found is not None and found.seeds == 3
    assert found.mean == pytest.approx(0.02) and found.half == pytest.approx(0.0248, abs=1e-4)
    assert found.verdict == "no difference shown"


def test_the_later_of_two_runs_with_a_seed_counts(tmp_path):
    records = [record("bilstm_soft", 0, 0.1), *pairs((0.9, 0.9), (0.92, 0.9))]
    soft = lines(tmp_path, records)["soft"].figures["accuracy"]
    assert soft.text(4) == "0.9100 ± 0.0141" and soft.seeds == 2


def test_figures_of_a_few_examples_stood_in_the_table_of_all(tmp_path):
    """And those of all in a table of a few, or those of a few in one of fewer."""
    records = [record("bilstm_soft", 0, 0.5), record("bilstm_soft", 0, 0.9, "test, first 9")]
    for limit, accuracies in (("", [0.5]), ("limit = 9\n", [0.9]), ("limit = 8\n", [])):
        text = FILE.replace("[[table]]\n", f"[[table]]\n{limit}")
        runs = lines(tmp_path, records, text)["soft"].runs
        assert [run["accuracy"] for run in runs.values()] == accuracies


def test_a_table_says_what_was_not_run_and_which_rows_have_few_seeds(tmp_path):
    lines(tmp_path, pairs((0.5, 0.52))[:1])
    (table,) = read_experiments(tmp_path / "table.toml")
    shown = terminal(table, Recorded(table.records)).splitlines()
    assert shown[:2] == ["one: Gates", "Six kinds of questions."]
    rows = [line.split() for line in shown[3:6]]
    assert rows == [
        ["soft", ".9008,", "1.4M", "0.5000", "1*"],
        ["gated", "not", "run"],
        ["quoted", ".9"],
    ]
    assert shown[6] == "* fewer than three seeds, which rank nothing."


def test_markdown_has_the_interval_the_verdict_and_the_baselines(tmp_path):
    records = [
        {**one, "bag_of_words_accuracy": 0.4, "majority_accuracy": 0.1}
        for one in pairs((0.5, 0.61), (0.5, 0.62), (0.5, 0.63))
    ]
    found = lines(tmp_path, records)
    (table,) = read_experiments(tmp_path / "table.toml")
    cells = markdown(table, list(found.values())).splitlines()
    assert cells[0] == (
        "| model | paper: accuracy | accuracy | bag of words | majority | seeds | "
        "difference over soft, 95% interval | verdict |"
    )
    assert cells[3] == (
        "| gated |  | 0.6200 ± 0.0100 | 0.4000 | 0.1000 | 3 | +0.1200 ± 0.0248 | ahead |"
    )


def test_baselines_of_the_data_stand_beside_runs_that_have_none(tmp_path):
    of_data = {"task": "classify", "preset": "trec"}
    rows = [
        {**of_data, "split": split, "bag_of_words_accuracy": accuracy}
        for split, accuracy in (("test", 0.8), ("validation", 0.1))
    ]
    write_json_lines(tmp_path / "baselines.jsonl", rows)
    found = lines(tmp_path, pairs((0.5, 0.6)))
    assert found["soft"].baselines == {"bag of words": 0.8}
    assert found["quoted"].baselines == {}
    # Those of another version of the data, with other training texts, do not.
    rows = [{**row, "data": {"version": "trec/2.0.0"}} for row in rows]
    write_json_lines(tmp_path / "baselines.jsonl", rows)
    of_one = [record("bilstm_soft", 0, 0.9, data={"version": "trec/1.0.0"})]
    assert lines(tmp_path, of_one)["soft"].baselines == {}


def test_validation_data_choose_from_the_grid(tmp_path):
    """The runs of another combination are better on test data, and were not chosen."""
    rates = "[[table]]\ngrid.training.learning_rate = [0.1, 0.2]\n"
    text = FILE.replace("[[table]]\n", rates)
    rated = {rate: {"options": {"training.learning_rate": rate}} for rate in (0.1, 0.2)}
    records = [
        record("bilstm_soft", 0, 0.8, "validation", **rated[0.1]),
        record("bilstm_soft", 0, 0.7, "validation", **rated[0.2]),
        record("bilstm_soft", 0, 0.5, **rated[0.1]),
        record("bilstm_soft", 0, 0.9, **rated[0.2]),
        record("bilstm_gated", 0, 0.9, "validation", **rated[0.1]),
        record("bilstm_gated", 0, 0.9, **rated[0.1]),
    ]
    found = lines(tmp_path, records, text)
    assert found["soft"].settings == {"training.learning_rate": 0.1}
    assert found["soft"].figures["accuracy"].mean == 0.5
    # A combination is missing, so that nothing is chosen yet.
    assert found["gated"].settings is None and not found["gated"].figures
    (table,) = read_experiments(tmp_path / "table.toml")
    shown = [line.split() for line in terminal(table, Recorded(table.records)).splitlines()]
    assert ["soft", "trec", "learning_rate=0.1", "0.8000", "1", "chosen"] in shown
    assert ["gated", "trec", "learning_rate=0.2", "not", "run"] in shown


def test_a_grid_never_got_a_choice_by_a_figure_that_no_run_has(tmp_path):
    keys = '[[table]]\ngrid.training.learning_rate = [0.1, 0.2]\nchoose = "acuracy"\n'
    rates = {"options": {"training.learning_rate": 0.1}}
    records = [record("bilstm_soft", 0, 0.8, "validation", **rates)]
    with pytest.raises(UserError) as wrong:
        lines(tmp_path, records, FILE.replace("[[table]]\n", keys))
    assert str(wrong.value) == (
        "table 'one', `choose`: unknown figure 'acuracy' (did you mean 'accuracy'?): "
        "choose from accuracy"
    )


def test_a_column_of_a_figure_that_no_run_has_was_left_out_silently(tmp_path):
    figures = 'figures = { accuracy = "accuracy", F1 = "f1", recall = "recal" }'
    text = FILE.replace('figures = { accuracy = "accuracy" }', figures)
    lines(tmp_path, [record("bilstm_soft", 0, 0.5, f1=0.4)], text)
    (table,) = read_experiments(tmp_path / "table.toml")
    shown = terminal(table, Recorded(table.records)).splitlines()
    assert shown[-1] == ("no run has this: unknown figure 'recal': choose from accuracy, f1")
    lines(tmp_path, [], text)
    assert "unknown" not in terminal(table, Recorded(table.records))


@pytest.mark.parametrize("diverged", [0.1, 0.2])
def test_a_combination_whose_run_diverged_is_not_chosen(diverged, tmp_path):
    text = FILE.replace("[[table]]\n", "[[table]]\ngrid.training.learning_rate = [0.1, 0.2]\n")
    records = [
        record(
            "bilstm_soft",
            0,
            float("nan") if rate == diverged else 0.5,
            "validation",
            options={"training.learning_rate": rate},
        )
        for rate in (0.1, 0.2)
    ]
    chosen = lines(tmp_path, records, text)["soft"].settings
    assert chosen is not None and chosen["training.learning_rate"] != diverged


def test_runs_of_other_options_are_not_of_the_row(tmp_path):
    changed = record("bilstm_soft", 0, 0.9, options={"model.dropout": 0.1})
    no_vectors = record("bilstm_soft", 1, 0.9, options={"data.vectors": ""})
    tuned = record("bilstm_soft", 2, 0.9)
    tuned["command"] = tuned["command"].replace(" train ", " tune ")
    assert not lines(tmp_path, [changed, no_vectors, tuned])["soft"].runs


def test_the_command_shows_the_named_tables(tmp_path):
    lines(tmp_path, pairs((0.5, 0.6)))
    file = str(tmp_path / "table.toml")
    done = CliRunner().invoke(cli, ["compare", file, "--show", "--tables", "one"])
    assert done.exit_code == 0 and "0.6000" in done.output
    wrong = CliRunner().invoke(cli, ["compare", file, "--show", "--tables", "ona"])
    assert "did you mean 'one'" in str(wrong.exception)


def test_a_run_that_diverged_has_no_verdict_and_stays_in_the_mean(tmp_path):
    found = lines(tmp_path, pairs((0.5, 0.6), (0.5, float("nan")), (0.5, 0.6)))["gated"]
    assert found.difference is None and found.figures["accuracy"].text(4) == "nan ± nan"


@pytest.mark.parametrize("name", ["task", "preset", "model", "seed", "split", "options", "command"])
def test_a_line_that_is_no_record_is_named(name, tmp_path):
    damaged = record("bilstm_soft", 0, 0.5)
    del damaged[name]
    with pytest.raises(UserError, match=rf"runs\.jsonl, line 2: .*'{name}' is missing"):
        lines(tmp_path, [record("bilstm_soft", 0, 0.5), damaged])


@pytest.mark.parametrize(
    "changed", [{"task": "none"}, {"preset": "none"}, {"command": "quasiattn 'train"}]
)
def test_a_record_of_what_there_is_not_is_named(changed, tmp_path):
    with pytest.raises(UserError, match=r"runs\.jsonl, line 1: not a record of a run"):
        lines(tmp_path, [{**record("bilstm_soft", 0, 0.5), **changed}])


def test_word_vectors_change_the_usual_rate_of_a_row_and_of_its_records():
    """The default rate without vectors got the records of the default rate with them."""
    preset = describe("pairs").presets["own"].for_model("decomposable")
    options = preset.with_overrides({"data.vectors": "glove.txt"}).options()
    rates = {options["training.learning_rate"], preset.options()["training.learning_rate"]}
    assert len(rates) == 2
    for rate in rates:
        row = Row("one", "pairs", "own", "decomposable", {"training.learning_rate": rate})
        found = {
            "task": "pairs", "preset": "own", "model": "decomposable", "split": "test",
            "options": {**options, "training.learning_rate": rate}, "command": "quasiattn compare",
        }  # fmt: skip
        assert row.key("test") == key_of(found)


def test_a_table_of_another_precision_showed_the_runs_in_float32(tmp_path):
    old, half = (record("bilstm_soft", 0, figure) for figure in (0.5, 0.7))
    records = [{**old, "seed": 1, "policy": "float32"}, old, {**half, "policy": "mixed_bfloat16"}]
    names = set()
    for policy, seeds, mean in (("float32", 2, 0.5), ("mixed_bfloat16", 1, 0.7)):
        line = lines(tmp_path, records, f"policy = {policy!r}\n{FILE}")["soft"]
        assert (len(line.runs), line.figures["accuracy"].mean) == (seeds, mean)
        names.add(line.row.run(0))
    assert len(names) == 2  # their run folders


def test_a_combination_that_failed_hid_the_seeds_of_its_row(tmp_path):
    """A failed run leaves no record, so its combination has none."""
    grid = 'grid.training.learning_rate = [0.001, 1e9]\nchoose = "accuracy"\n'
    text = FILE.replace('note = "Six', grid + 'note = "Six')
    rate = {"options": {"training.learning_rate": 0.001}}
    records = [record("bilstm_gated", 0, 0.8, "validation", **rate)]
    assert not lines(tmp_path, records, text)["gated"].runs
    records += [record("bilstm_gated", seed, 0.9, **rate) for seed in range(3)]
    assert not lines(tmp_path, records, text)["gated"].runs  # it may not have been tried
    (table,) = read_experiments(tmp_path / "table.toml")
    failed = table.rows[1].with_settings({"training.learning_rate": 1e9}).key("validation")
    line = outcome(table, Recorded(table.records, [failed]))[1]
    assert list(line.runs) == [0, 1, 2] and line.settings == {"training.learning_rate": 0.001}


def test_a_figure_that_is_no_number_was_a_traceback(tmp_path):
    text = FILE.replace('accuracy = "accuracy" }', '"by class" = "per_class" }')
    records = [record("bilstm_soft", seed, 0.9, per_class={"a": 1.0}) for seed in range(2)]
    lines(tmp_path, records, text)
    (table,) = read_experiments(tmp_path / "table.toml")
    assert "no run has this: unknown figure 'per_class'" in terminal(table, Recorded(table.records))
    grid = 'grid.training.learning_rate = [0.001, 0.01]\nnote = "Six'
    of_class = [record("bilstm_soft", 0, 0.9, "validation", per_class={"a": 1.0}, options=rate)
        for rate in ({"training.learning_rate": one} for one in (0.001, 0.01))]  # fmt: skip
    with pytest.raises(UserError, match="`choose`: unknown figure 'per_class'"):
        lines(tmp_path, of_class, text.replace('note = "Six', grid))
