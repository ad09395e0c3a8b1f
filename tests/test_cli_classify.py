import csv
import json
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest
import tiny_mlu
import tiny_texts
import without_keras
from test_cli_bad_input import assert_one_line


def arguments(folder, model="bilstm_gated", **changed):
    settings = tiny_texts.overrides(folder, model, **changed)
    del settings["data.train"]
    return tiny_mlu.arguments(settings)


@pytest.fixture(scope="module")
def data(texts_data):
    return texts_data


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """Return a run on a user's own file, trained from the command line."""
    from keras_quasiattn.lab import cli

    folder = tmp_path_factory.mktemp("runs")
    (folder / "glove.txt").write_text("who 1 2 3 4 5 6 7 8\n")
    words = f"train classify --data {data}/train.tsv --run {folder}/mine --quiet".split()
    with pytest.raises(SystemExit) as ended:
        cli.main([*words, "--vectors", str(folder / "glove.txt"), *arguments(data)])
    assert ended.value.code == 0
    return folder / "mine"


@pytest.mark.long
def test_from_a_users_file_to_a_served_model(cli_prints, trained, data, tmp_path):
    record = tmp_path / "results.jsonl"
    figures = json.loads(cli_prints("evaluate", str(trained), "--json", "--record", str(record)))
    assert figures["accuracy"] > 0.9 and "validation is" in figures["data"]["note"]
    row = json.loads(record.read_text())
    assert row["data"] == figures["data"] and row["attention_flops"] == figures["attention_flops"]

    lines = cli_prints("show", str(trained), "where was the city?", "").splitlines()
    assert lines[0].startswith("LOC ")
    assert [line.split()[2] for line in lines[1:6]] == [*("where", "was", "the", "city", "?")]
    assert len(lines) == 7 and lines[6].split()[0] in ("HUM", "LOC", "NUM")

    cli_prints("export", str(trained), "--to", str(tmp_path))
    (variables,) = (tmp_path / "mine/1/variables").glob("*.data-*")
    assert variables.stat().st_size < 4 * row["parameters"] + 10_000  # each weight once
    about = json.loads((tmp_path / "mine/1/assets.extra/about.json").read_text())
    assert about["data"] == figures["data"]
    expected = json.loads(cli_prints("predict", str(trained), "where was the city?", "--weights"))
    served = ask(Path(tmp_path / "mine/1"), ["where was the city?", "", "where " * 100_000])
    assert served["label"][0] == expected["label"] and served["tokens"][0][:5] == expected["tokens"]
    assert served["gates"][0][:5] == expected["gates"]
    assert served["weights"][0][:5] == pytest.approx(expected["weights"], abs=1e-5)
    assert served["classes"] == [expected["classes"]] * 3
    assert len(served["tokens"][2]) == 12
    assert all(0 <= p <= 1 for row in served["probabilities"] for p in row)


def test_predict_wrote_the_weights_of_every_token(cli_prints, trained):
    words = ("predict", str(trained), "where was the city?")
    answer = json.loads(cli_prints(*words))
    assert list(answer) == ["input", "label", "classes", "probabilities"]
    assert json.loads(cli_prints(*words, "--weights")).keys() == answer.keys() | {
        "tokens",
        "gates",
        "weights",
    }


def test_predict_says_which_rows_of_a_table_are_right_and_collects_mistakes(
    run_cli, trained, tmp_path
):
    sheet, mistakes = tmp_path / "sheet.csv", tmp_path / "mistakes.jsonl"
    rows = [
        ("where was the old city?", "LOC"),
        ("who ran,\nand where?", "NUM"),
        ("how many men?", " NUM "),
        ("who is it?", "LOC"),
        ("who was it?", ""),
        ("who was he?", "num"),
    ]
    with sheet.open("w", encoding="utf-16", newline="") as file:
        csv.writer(file, delimiter=";").writerows([("Question", "Kind"), *rows, ("", "")])
    words = ("predict", str(trained), "--data", str(sheet))
    code, out, err = run_cli(
        *words, "--columns", "text=Question,label=Kind", "--errors", str(mistakes)
    )
    assert code == 0, err
    answers = [json.loads(line) for line in out.splitlines()]
    assert [answer["input"] for answer in answers] == [
        *("where was the old city?", "who ran, and where?", "how many men?"),
        *("who is it?", "who was it?", "who was he?"),
    ]
    judged = [*answers[:4], answers[5]]
    assert [answer["expected"] for answer in judged] == ["LOC", "NUM", "NUM", "LOC", "num"]
    assert all(answer["right"] == (answer["label"] == answer["expected"]) for answer in judged)
    assert not answers[1]["right"] and "right" not in answers[4]
    wrong = [json.loads(line) for line in mistakes.read_text().splitlines()]
    confidence = [max(answer["probabilities"]) for answer in wrong]
    assert confidence == sorted(confidence, reverse=True)
    assert wrong and sorted(one["input"] for one in wrong) == sorted(
        one["input"] for one in judged if not one["right"]
    )
    assert err == (
        f"quasiattn: warning: {sheet}: labels that differ only in case or spaces count as "
        f"different ones: 'NUM' (2 rows) and 'num' (1 rows)\n"
        f"{len(wrong)} of 5 answers are wrong: see {mistakes}\n"
    )


def test_predict_refuses_what_it_cannot_answer(run_cli, trained, mlu_run, tmp_path):
    (tmp_path / "a.tsv").write_text("review\nwho?\n")
    table = ["--data", str(tmp_path / "a.tsv")]
    for words, message in (
        ([str(trained), "--data", "none.tsv"], "cannot read none.tsv: No such file"),
        ([str(trained), *table], "'text' must be among them, .* --columns text=NAME"),
        ([str(trained), *table, "--columns", "txt=review"], "unknown column 'txt'"),
        (
            [str(trained), *table, "--columns", "text=review", "--errors", "x.jsonl"],
            "a.tsv has no column 'label': name the one of the labels, such as --columns label=NAME",
        ),
        ([str(trained), *table, "--columns", "text=review,label=kind"], "no column 'kind': name"),
        ([str(mlu_run), *table], "task mlu answers no tables: give its inputs as texts"),
        # The answer was the same as without.
        ([str(mlu_run), tiny_mlu.QUESTION, "--weights"], "--weights: the answers of .* have none"),
    ):
        assert_one_line(run_cli("predict", *words), message)
    for words, message in (
        ([str(trained), "who?", *table], "give either texts"),
        ([str(trained), "who?", "--errors", "x.jsonl"], "need --data FILE"),
    ):
        code, _, err = run_cli("predict", *words)
        assert (code, len(err.splitlines())) == (2, 1) and message in err


@pytest.mark.long
def test_evaluate_without_a_test_file_measures_the_validation_split(run_cli, data, tmp_path):
    columns = "Question\tKind\n" + (data / "train.tsv").read_text().partition("\n")[2]
    (tmp_path / "train.tsv").write_text(columns)
    short = {"training__steps": 8, "training__checkpoint_every": 8, "data__test": ""}
    run = str(tmp_path / "run")
    words = f"train classify --model bilstm_none --data {tmp_path}/train.tsv --run {run} --quiet"
    words = (*words.split(), "--columns", "text=Question,label=Kind")
    code, _, err = run_cli(*words, *arguments(data, "bilstm_none", **short))
    assert code == 0, err
    code, out, err = run_cli("evaluate", run, "--json")
    assert (code, json.loads(out)["split"]) == (0, "validation")
    assert err.startswith("the run has no test file: measuring on the validation split")
    advice = r"measure with --split validation, or .*data\.test=FILE"
    outcome = run_cli("evaluate", run, "--split", "test")
    assert_one_line(outcome, f"the data have no split 'test': {advice}")
    # The run remembers the names of the columns.
    code, out, _ = run_cli("predict", run, "--data", str(tmp_path / "train.tsv"))
    assert code == 0 and "right" in json.loads(out.splitlines()[0])


def test_no_data_are_downloaded_that_nobody_has_named(run_cli, tmp_path, monkeypatch):
    words = ["train", "classify", "--run", str(tmp_path / "run"), "--data-dir", str(tmp_path)]
    message = (
        r"no data are given: add --data FILE, or --preset trec to download "
        r"trec \(0.3 MiB from cogcomp.org\)"
    )
    assert_one_line(run_cli(*words), message)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    asked: list[str] = []
    monkeypatch.setattr("click.confirm", lambda text, err: asked.append(text))
    assert_one_line(run_cli(*words), message)
    (question,) = asked
    assert question.startswith("No data are given. Download trec (0.3 MiB from cogcomp.org) to ")

    def closed(text, err):  # by Control-D, which was a traceback
        raise click.Abort

    monkeypatch.setattr("click.confirm", closed)
    assert_one_line(run_cli(*words), message)
    assert not list(tmp_path.iterdir())


def test_a_network_that_does_not_answer_is_one_line_within_seconds(run_cli, tmp_path, monkeypatch):
    asked = []

    def connect(peer, timeout):
        asked.append(peer)
        raise OSError("unreachable")

    monkeypatch.setattr("socket.create_connection", connect)
    words = ["--preset", "trec", "--run", str(tmp_path / "run"), "--data-dir", str(tmp_path)]
    monkeypatch.delenv("http_proxy", raising=False)
    assert_one_line(
        run_cli("train", "classify", "--quiet", *words),
        r"cannot download trec \(0.3 MiB from cogcomp.org\): no answer within 5 seconds",
    )
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    assert run_cli("train", "classify", "--quiet", *words)[0] == 1
    assert asked == [("cogcomp.org", 80), ("proxy.example", 3128)]
    assert not (tmp_path / "run").exists()


def ask(model, texts):
    """Return the exported model's answers in a process without this package and Keras."""
    answers = without_keras.ask(model, {"text": texts})
    decoded = np.vectorize(bytes.decode, otypes=[object])
    return {
        name: (decoded(one) if one.dtype == object else one).tolist()
        for name, one in answers.items()
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["mlu", "--data", "x.tsv"],
            "--data 'x.tsv': task mlu generates its own data and accepts no file",
        ),
        (
            ["classify", "--data", "x.tsv", "--preset", "trec"],
            "'x.tsv' needs the preset 'own', not 'trec'",
        ),
        (["classify", "--data", "x.tsv"], "cannot read x.tsv: No such file"),
        (["classify", "--test", "x.tsv"], "--test 'x.tsv' is of no use without a file to train on"),
        # The file "x,y" could not be read, or --data was asked for.
        (
            ["classify", "--source", "x", "--target", "y"],
            "--source 'x' --target 'y': task classify reads no pair of files: give --data FILE",
        ),
        (
            ["translate", "--test", "x,y"],
            "--test 'x,y' is of no use without a file to train on: add --source FILE --target FILE",
        ),
        (["mlu", "--validation", "x.tsv"], "--validation 'x.tsv': task mlu generates"),
        (
            ["classify", "--data", __file__, "--columns", "text"],
            "--columns 'text': it must be NAME=",
        ),
        (["classify", "--data", __file__, "--vectors", "x.txt"], "cannot read x.txt: No such file"),
        (["classify", "--preset", "own"], "data.train is '': name a file, with --data FILE"),
        (
            ["classify", "--preset", "trec", "--columns", "text=x"],
            "--columns 'text=x': the preset 'trec' of task classify reads no table of yours; "
            "presets that read one: own",
        ),
        (["mlu", "--columns", "text=x"], "presets that read one: none"),
        (["mlu", "--vectors", "x.txt"], "the model 'coda' of task mlu cannot start with word vect"),
    ],
)
def test_options_that_do_not_go_together(words, message, run_cli, tmp_path):
    assert_one_line(run_cli("train", *words, "--run", str(tmp_path / "run"), "--quiet"), message)


def test_task_without_tokens_shows_nothing(run_cli, mlu_run):
    assert_one_line(
        run_cli("show", str(mlu_run), tiny_mlu.QUESTION),
        "the answers of .* have no tokens to show: use predict",
    )


def test_a_run_of_pairs_was_loaded_before_it_had_nothing_to_show(run_cli, mlu_run, tmp_path):
    config = json.loads((mlu_run / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "task": "pairs"}))
    message = "the answers of .* have no tokens to show: use predict"
    assert_one_line(run_cli("show", str(tmp_path), "one\ttwo"), message)  # it has no model


def test_a_pair_without_a_label_was_a_mistake():
    from keras_quasiattn.lab.cli.run_commands import _judged

    answer = {"label": "same", "classes": ["other", "same"]}
    assert _judged(answer, "-") == answer and _judged(answer, " same ")["right"]
    assert not _judged({"label": "+", "classes": ["+", "-"]}, "-")["right"]
