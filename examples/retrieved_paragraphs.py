"""SQuAD's questions without their paragraphs: files with the paragraphs that a search finds.

    python examples/retrieved_paragraphs.py --folder data/retrieved
    quasiattn compare examples/papers/coda.toml --tables 1-retrieved

In CoDA's table 1 a reader answers from passages that a search engine found, on data that we do not
have. This replaces them: each question of the preset `squad_part` gets the most similar paragraphs
of all of SQuAD's articles of its split, by the cosine of their TF-IDF vectors. The script writes
`train.jsonl`, `validation.jsonl` and `test.jsonl` for `quasiattn train read --preset own`, and
prints how often an answer is in the paragraphs. A reader learns from the first place where the
answer occurs, which may not be the right one; training questions without such a place are left out.
The script reads data from the folder that QUASIATTN_DATA_DIR names (default `data`).
"""

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import atomic_file
from keras_quasiattn.lab.data import ReadingTexts
from keras_quasiattn.lab.data.questions import find_answer
from keras_quasiattn.lab.tasks import get
from keras_quasiattn.lab.tasks.preset import SPLITS

PARAGRAPHS = 3  # for each question
_TOGETHER = 500  # questions compared with all paragraphs at once, which bounds the memory


def most_alike(questions: Sequence[str], paragraphs: Sequence[str]) -> Iterator[list[str]]:
    """For each question the most similar paragraphs, best first."""
    vectors = TfidfVectorizer(sublinear_tf=True, stop_words="english")
    found = vectors.fit_transform(paragraphs).T  # (words, paragraphs), rows of length 1
    for begin in range(0, len(questions), _TOGETHER):
        some = vectors.transform(questions[begin : begin + _TOGETHER])
        alike = (some @ found).toarray()  # (questions, paragraphs)
        for row in np.argsort(-alike, axis=1, kind="stable")[:, :PARAGRAPHS]:
            yield [paragraphs[place] for place in row]


def write(file: Path, questions: ReadingTexts, paragraphs: Sequence[str]) -> float:
    """Write the questions with their paragraphs; return the share with an answer in them."""
    texts = [question.decode("utf-8", "replace") for question in questions.questions]
    answered = []
    with atomic_file(file) as temporary, temporary.open("w", encoding="utf-8") as stream:
        rows = zip(texts, questions.answers, most_alike(texts, paragraphs), strict=True)
        for question, answers, passages in rows:
            row = {"question": question, "passages": passages, "answers": answers}
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
            answered.append(any(find_answer("\n".join(passages), one) >= 0 for one in answers))
    return sum(answered) / len(answered)


def main() -> None:
    """Read the arguments, write the three files and print the shares."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="folder for the files")
    arguments = parser.parse_args()
    options = get("read").presets["squad_part"].data
    data_dir = Path(os.environ.get("QUASIATTN_DATA_DIR", "data"))
    there = [name for name in SPLITS if (arguments.folder / f"{name}.jsonl").exists()]
    if there:
        parser.error(f"--folder: {arguments.folder} has a file of {', '.join(there)}; name another")
    try:
        whole, _ = get("read").sources["squad_part"].load(options, data_dir)
    except UserError as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    chosen = {**whole.splits, "train": whole.splits["train"].part(options["train_share"])}
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for split, questions in chosen.items():
        articles = ("test",) if split == "test" else ("train", "validation")
        texts = {text for name in articles for text in whole.splits[name].passages}
        paragraphs = sorted(text.decode("utf-8", "replace") for text in texts)
        file = arguments.folder / f"{split}.jsonl"
        share = write(file, questions, paragraphs)
        print(
            f"{file}: {len(questions):,} questions, {len(paragraphs):,} paragraphs, "
            f"an answer in the {PARAGRAPHS} most alike for {share:.1%}"
        )


if __name__ == "__main__":
    main()
