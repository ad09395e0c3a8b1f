import json
import re
from typing import Any

import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.data import (
    QuestionCorpus,
    prepare,
    questions_from_files,
    questions_from_tfds,
)
from keras_quasiattn.lab.data.questions import (
    Question,
    find_answer,
    read_quasar,
    read_question_lines,
    read_search_qa,
    read_squad,
    reading_texts,
)
from keras_quasiattn.metrics import answer_scores

LINE = {
    "question": "Où ?",
    "context": "Un café à Zürich, ja",
    "answers": ["Zürich", "à Zürich"],
    "answer_start": [10, 8],
}


def squad(*paragraphs):
    made = [{"context": context, "qas": questions} for context, questions in paragraphs]
    return json.dumps({"version": "1.1", "data": [{"title": "t", "paragraphs": made}]})


def asked(name, question, **answers):
    given = [{"text": text, "answer_start": start} for text, start in answers.items()]
    return {"id": name, "question": question, "answers": given}


def write(file, *lines):
    file.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    file.write_text(text, encoding="utf-8")
    return file


def test_squad_is_read_with_places_in_bytes(tmp_path):
    context = "Él vive en Zürich."
    file = write(
        tmp_path / "a.json",
        squad((context, [asked("x", "¿Dónde?", Zürich=11), asked("y", "¿Quién?", Él=0)])),
    )
    texts = questions_from_files({"train": file}).splits["train"]
    assert texts.starts.tolist() == [12, 0] and texts.ends.tolist() == [19, 3]
    assert [
        p[s:e].decode() for p, s, e in zip(texts.passages, texts.starts, texts.ends, strict=True)
    ] == ["Zürich", "Él"]
    assert texts.answers.tolist() == [("Zürich",), ("Él",)]


@pytest.mark.parametrize(
    ("context", "answer", "start"),
    [
        ("The Roman met a man.", "MAN", 16),
        ("$5 or $50", "$50", 6),
        ("It is (b)", "(b)", 6),
        ("nothing", "thing", -1),
        ("an answer", "", -1),
        ("Ein Café", "café", 4),
    ],
)
def test_answers_are_found_as_whole_words(context, answer, start):
    assert find_answer(context, answer) == start


CONTEXT = "The tower in Zürich is old."
ASKED = {"question": "Where ?", "context": CONTEXT}
RIGHT = {"text": ["Zürich", "in Zürich"], "answer_start": [13, 10]}
PAIRS = [{"text": "Zürich", "answer_start": 13}, {"text": "in Zürich", "answer_start": 10}]
NO_ANSWERS: list[dict[str, Any]] = [
    {"answers": []},
    {"answers": [], "is_impossible": True, "plausible_answers": PAIRS},
    {"is_impossible": True, "plausible_answers": PAIRS},
    {"answers": PAIRS, "is_impossible": True},
    {"answers": [{"text": "", "answer_start": -1}]},
    {"answers": [{"text": "", "answer_start": 0}]},
    {"answers": {"text": [], "answer_start": []}},
    {"answers": {"text": [""], "answer_start": [-1]}},
    {"answers": [], "answer_start": []},
    {"answers": [], "answer_start": -1},
    {"answers": [""], "answer_start": [-1]},
]
ANSWERS: list[dict[str, Any]] = [
    {"answers": RIGHT},
    {"answers": PAIRS, "is_impossible": False},
    {"answers": RIGHT["text"], "answer_start": RIGHT["answer_start"]},
    {"answers": [*PAIRS, {"text": "", "answer_start": -1}]},
    {"answers": {"text": RIGHT["text"]}},
    {"answers": [{"text": text} for text in RIGHT["text"]]},
    {"answers": RIGHT, "data": "of 2020", "paragraphs": 1, "qas": None},
]


def nested(*rows):
    """Return questions nested as in SQuAD 2.0; only JSONL lists the starts next to the answers."""
    questions = [{name: one for name, one in row.items() if name != "context"} for row in rows]
    return json.dumps({"data": [{"paragraphs": [{"context": CONTEXT, "qas": questions}]}]})


FORMS: dict[str, Any] = {
    "squad.json": nested,
    "list.json": lambda *rows: json.dumps(rows),
    "indented.json": lambda *rows: json.dumps(rows, indent=1),
    "field.json": lambda *rows: json.dumps({"version": "2", "data": rows}),
    "lines.json": lambda *rows: "\n".join(map(json.dumps, rows)),
    "lines.jsonl": lambda *rows: "\n".join(map(json.dumps, rows)),
    "crlf.jsonl": lambda *rows: "\r\n".join(map(json.dumps, rows)),
    "list.jsonl": lambda *rows: json.dumps(rows),
    "articles.jsonl": nested,
}


@pytest.mark.parametrize("form", FORMS)
def test_questions_without_an_answer_and_other_programs_forms_were_refused(form, tmp_path):
    rows = [{**ASKED, **one} for one in (*ANSWERS, *NO_ANSWERS)]
    file = tmp_path / form
    file.write_bytes(FORMS[form](*rows).encode())
    read = questions_from_files({"train": file, "test": file})
    train, test = read.splits["train"], read.splits["test"]
    assert read.dropped == {"train": len(NO_ANSWERS)} and len(train) == len(ANSWERS)
    assert train.answers.tolist() == [tuple(RIGHT["text"])] * len(ANSWERS)
    assert {
        passage[start:end].decode()
        for passage, start, end in zip(train.passages, train.starts, train.ends, strict=True)
    } == {"Zürich"}
    assert test.answers.tolist()[len(ANSWERS) :] == [("",)] * len(NO_ANSWERS)
    scores = answer_scores([""] * len(test), test.answers.tolist())
    assert scores["exact_match"] == scores["f1"] == len(NO_ANSWERS) / len(test)


def test_an_answer_that_does_not_occur_stays_the_right_one(tmp_path):
    row = {**ASKED, "answers": {"text": ["Bern"], "answer_start": [-1]}}
    file = write(tmp_path / "a.jsonl", row, {**ASKED, "answers": RIGHT})
    read = questions_from_files({"train": file, "test": file})
    assert read.dropped == {"train": 1}
    assert read.splits["test"].answers[0] == ("Bern",)


def test_only_questions_without_an_answer_are_nothing_to_train_on(tmp_path):
    file = write(tmp_path / "a.json", squad((CONTEXT, [asked("x", "q")])))
    with pytest.raises(UserError, match="no training passage of a.json.* contains the answer"):
        questions_from_files({"train": file})


BAD_SQUAD = [
    (
        squad(("a b", [asked("x", "q", b=2), asked("y", "q", b=1)])),
        "record 2: the answer 'b' is not in the passage at position 1",
    ),
    (squad(("a b", [asked("x", "  ", b=2)])), "record 1: the question is '  '"),
    (
        squad(("a b", [asked("x", "q", b=2), {"id": "y", "question": "q"}])),
        "record 2: not in SQuAD's format .KeyError",
    ),
    ('{"data": 3}', "record 1: not in SQuAD's format .TypeError: 3 is not a question"),
    ('{"data": ["x"]}', "record 1: not in SQuAD's format"),
    # The record before it was named.
    ('[{"question": "q", "context": "a", "answers": []}, 3]', "record 2: not in SQuAD's format"),
    ('[{"question": "q", "context": "a"}]', "record 1: not in SQuAD's format .KeyError"),
    ('[{"qas": [{"question": "q"}]}]', "record 1: not in SQuAD's format .KeyError"),
    (squad(("a b", [asked("x", "q", b=2), asked("y", "q", b=-2)])), "record 2: the answer 'b'"),
    (squad(("a b", [asked("x", "q", b=2), asked("y", "r", a=0)]))[:-25], "record 2: not JSON"),
]


@pytest.mark.parametrize(("text", "message"), BAD_SQUAD)
def test_broken_squad_names_file_and_record(text, message, tmp_path):
    file = write(tmp_path / "broken.json", text)
    with pytest.raises(UserError, match=f"{re.escape(str(file))}, {message}"):
        list(read_squad(file))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([LINE, "{"], "line 2: not JSON"),
        ([LINE, {**LINE, "question": None}], "line 2: the question is None"),
        (
            [{**LINE, "answer_start": [10]}],
            r"line 1: answer_start must be a list of 2 .* got \[10\]",
        ),
        ([{**LINE, "answer_start": 10}], "line 1: answer_start must be a list of 2 .* got 10"),
        (
            [{**LINE, "answer_start": [9, 8]}],
            "line 1: the answer 'Zürich' is not in the passage at position 9",
        ),
        ([{**LINE, "answers": "Zürich"}], "line 1: the answers are 'Zürich'"),
        # Whole passages were printed.
        ([{**LINE, "answers": "a" * 999}], "line 1: the answers are 'a{,59}: expected"),
        ([{**LINE, "answers": None}], "line 1: the answers are None"),
        ([LINE, {"qas": 3}], "line 2: not a question"),
        ([{"qas": [3], "context": ""}], "line 1: not a question"),
        ([{**LINE, "answers": {"text": "a", "answer_start": 0}}], "line 1: the answers are 'a'"),
        ([{**LINE, "context": 3}], "line 1: the context is 3: expected a text"),
        ([{"question": "q"}], "line 1: the context is None: expected a text"),
    ],
)
def test_broken_lines_name_file_and_record(lines, message, tmp_path):
    file = write(tmp_path / "broken.jsonl", *lines)
    with pytest.raises(UserError, match=f"{re.escape(str(file))}, {message}"):
        list(read_question_lines(file))


def test_answers_are_looked_for_where_no_place_is_given(tmp_path):
    found = {
        "question": "q",
        "passages": ["Nothing here.", "In ZÜRICH it is"],
        "answers": ["Zürich"],
    }
    missing = {**found, "passages": ["Nothing here."]}
    file = write(tmp_path / "own.jsonl", found, missing)
    read = questions_from_files({"train": file, "test": file})
    assert read.dropped == {"train": 1} and len(read.splits["train"]) == 1
    assert read.splits["test"].starts.tolist() == [17, -1]
    texts = read.splits["train"]
    assert texts.passages[0][texts.starts[0] : texts.ends[0]].decode() == "ZÜRICH"
    write(tmp_path / "none.jsonl", missing)
    with pytest.raises(UserError, match="no training passage of none.jsonl.* contains the answer"):
        questions_from_files({"train": tmp_path / "none.jsonl"})
    with pytest.raises(UserError, match="own.csv has an unsupported file extension"):
        questions_from_files({"train": tmp_path / "own.csv"})


def quasar(folder):
    questions = [
        {"uid": "s3q1", "question": "Who sang it ?", "answer": "abba", "tags": ["1tok"]},
        {"uid": "s3q2", "question": "Where ?", "answer": "oslo", "tags": []},
    ]
    contexts = [
        {"uid": "s3q1", "contexts": [[0.9, "A song by ABBA ."], [0.1, "Abba again"]]},
        {"uid": "s3q2", "contexts": [[0.5, "in Sweden"]]},
    ]
    return write(folder / "questions.json", *questions), write(folder / "contexts.json", *contexts)


def test_quasar_t_joins_its_passages_and_finds_the_answer(tmp_path):
    questions, contexts = quasar(tmp_path)
    first, second = read_quasar(questions, contexts)
    assert (first.id, first.context, first.starts) == ("s3q1", "A song by ABBA .\nAbba again", [10])
    assert second.starts == [-1]
    write(contexts, {"uid": "s3q1", "contexts": [[1, "x"]]})
    with pytest.raises(UserError, match="questions.json has more records than .*contexts.json"):
        list(read_quasar(questions, contexts))
    write(contexts, {"uid": "other", "contexts": []})
    with pytest.raises(
        UserError, match="contexts.json, line 1: uid 'other' does not match uid 's3q1'"
    ):
        list(read_quasar(questions, contexts))
    write(questions, {"question": "Who ?", "answer": "abba"})
    write(contexts, {"contexts": [[1, "x"]]})
    with pytest.raises(UserError, match="line 1: uid None does not match uid None"):
        list(read_quasar(questions, contexts))


def search_qa(folder):
    results = [{"snippet": None, "url": "u"}, {"snippet": "The capital is Oslo ."}]
    row = {"id": 7, "question": "Norway's capital", "answer": "oslo", "search_results": results}
    write(folder / "000001.json", row)
    return write(folder / "000002.json", {**row, "search_results": []}).parent


def test_search_qa_takes_the_snippets_that_there_are(tmp_path):
    first, second = read_search_qa(search_qa(tmp_path))
    assert (first.context, first.starts) == ("The capital is Oslo .", [15])
    assert (second.context, second.starts) == ("", [-1])
    write(tmp_path / "000003.json", "[1")
    with pytest.raises(UserError, match="000003.json, record 3: not JSON"):
        list(read_search_qa(tmp_path))
    with pytest.raises(UserError, match="has no .json files"):
        list(read_search_qa(tmp_path / "none"))


@pytest.mark.parametrize("config", ["squad", "squad_lines", "quasar_t_short", "search_qa"])
def test_every_corpus_is_built_from_its_files(config, tmp_path):
    manual = tmp_path / "downloads" / "manual"
    for ours, quasars, searched in (
        ("train", "train", "train"),
        ("dev", "dev", "val"),
        ("dev", "test", "test"),
    ):
        write(manual / f"squad/{ours}-v1.1.json", squad(("a b", [asked("x", "q", b=2)])))
        write(manual / f"squad11/{ours}.jsonl", LINE)
        questions, contexts = quasar(tmp_path)
        for file, copy in ((questions, "questions"), (contexts, "contexts/short")):
            name = f"quasar-t/{copy}/{quasars}_{copy.partition('/')[0]}.json"
            write(manual / name, file.read_text().rstrip())
        search_qa(manual / "searchqa" / searched)
    builder = prepare(lambda: QuestionCorpus(config=config, data_dir=tmp_path), tmp_path)
    read = questions_from_tfds(builder, {"train": "train", "test": "test"})
    train, test = read.splits["train"], read.splits["test"]
    found = "open" if config in ("quasar_t_short", "search_qa") else "squad"
    assert (len(train), len(test)) == ((1, 2) if found == "open" else (1, 1))
    assert read.dropped["train"] == (found == "open")
    answer = train.passages[0][train.starts[0] : train.ends[0]].decode().lower()
    assert answer == train.answers[0][0].lower()


def test_an_answer_with_a_blank_before_it_lost_its_last_letter():
    text = reading_texts([Question("1", "what ?", "It is in a", [" in a"], [5])])
    assert text.passages[0][text.starts[0] : text.ends[0]] == b"in a"
