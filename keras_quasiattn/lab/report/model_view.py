"""What a report shows for one model: heat maps, texts, and matrices over training."""

import dataclasses
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_quasiattn.attention.probe import probe, with_sequences
from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.report.measured import Reached, chosen_answers
from keras_quasiattn.lab.serving.exported_model import ExportedModel
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.tasks.measured import Judged
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.lab.training.attention_summaries import read_attention
from keras_quasiattn.lab.training.checkpoints import Checkpoints, assign
from keras_quasiattn.report.attention_figures import AttentionFigures, shares
from keras_quasiattn.report.figures import Drawing, density_by_length, heat_map, histograms
from keras_quasiattn.report.heat_maps import Example, from_answer, heat_maps
from keras_quasiattn.report.page_writer import Section, summary

# Titles of matrices, by layer and by name of the matrix.
Titles = dict[str, dict[str, str]]

SHOWN = 6  # number of texts with heat maps and tokens on the page
_MEASURED = 32  # number of texts on which to measure saved checkpoints


@dataclasses.dataclass
class View:
    """The parts of a page about one model."""

    name: str
    examples: list[Example] = dataclasses.field(default_factory=list)
    texts: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    sections: list[Section] = dataclasses.field(default_factory=list)
    figures: list[Drawing] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    reached: Reached | None = None

    def add_answers(self, answers: Sequence[dict[str, Any]], judged: Sequence[Judged] = ()) -> None:
        """Add the judged answers, or else those with weights."""
        if judged:
            both = zip(answers, judged, strict=True)
            self.texts += [{**one, "model": self.name, "judged": judge} for one, judge in both]
            return
        pooled = [answer for answer in answers if answer.get("tokens") and "weights" in answer]
        self.texts += [{**answer, "model": self.name} for answer in pooled[:SHOWN]]

    def add_densities(self, answers: Sequence[dict[str, Any]]) -> None:
        """Plot the densities of answers that have gates, if there are two or more."""
        gated = [answer for answer in answers if answer.get("tokens") and "gates" in answer]
        if len(gated) > 1:
            lengths = [len(answer["tokens"]) for answer in gated]
            opened = [sum(map(bool, answer["gates"])) for answer in gated]
            densities = [count / length for count, length in zip(opened, lengths, strict=True)]
            drawn = density_by_length(slug(f"{self.name} density"), lengths, densities)
            self.sections.append(Section(f"Density by length: {self.name}", [drawn]))

    def add_examples(self, examples: Sequence[Example]) -> None:
        """Add the examples that have heat maps, and draw the heat maps of the first."""
        kept = [one for one in examples if one.maps]
        self.examples += kept
        for one in kept[0].maps if kept else []:
            self.figures.append(heat_map(slug(f"{self.name} {one.name}"), one))


def view_of_run(
    name: str,
    folder: RunFolder,
    data_dir: Path,
    inputs: Sequence[str],
    split: str | None,
    limit: int,
    *,
    needed: bool = True,
) -> View:
    """Collect everything that a report shows for a finished run."""
    view, task = View(name), folder.task(data_dir)
    model = folder.load_model(task)
    for text in inputs:
        task.check_input(text)
    judged: list[Judged] = []
    if split is not None:
        try:
            if missing := task.missing_data():  # nothing is downloaded or generated
                raise UserError(missing)
            task.prepare()
            folder.require_same_data(task)
            measured, simple = task.measure(model, split, limit), task.measure_baselines
            view.reached = Reached(name, task, split, measured, simple(split, limit))
            judged = [] if inputs else chosen_answers(view.reached.measured.judged)
        except UserError as error:
            if needed:
                raise
            shown = "the given texts are" if inputs else "the task's example is"
            view.notes.append(f"{name}: the data are not at hand ({error}), so only {shown} shown")
    texts = list(inputs) or [one.input for one in judged] or [task.example]
    answers = task.predict(model, texts)
    view.add_answers(answers, judged)
    if inputs:
        view.add_densities(answers)
    elif view.reached is not None and any("gates" in answer for answer in answers):
        measured_texts = [one.input for one in view.reached.measured.judged]
        view.add_densities(task.predict(model, measured_texts))
    titles = _add_maps(view, task, model, texts[:SHOWN], answers)
    rows = read_attention(folder.path)
    origin = "as recorded at every checkpoint on a batch of validation data"
    if titles and not rows:
        rows = _from_checkpoints(folder, model, task.tokenize(texts[:_MEASURED]).argument)
        origin = f"from the saved checkpoints, on {len(texts[:_MEASURED])} of the texts"
    if rows and rows[-1]["matrices"]:
        view.sections.append(_over_training(name, origin, rows, titles))
    return view


def view_of_saved_model(name: str, exported: ExportedModel, inputs: Sequence[str]) -> View:
    """Collect what a report shows of an exported model's answers to inputs, or to its example."""
    view, example = View(name), exported.about.get("example")
    texts = list(inputs) or ([example] if example is not None else [])
    if not texts:
        view.notes.append(f"{name} contains no example: pass --input")
    elif not inputs:
        view.notes.append(f"{name} is an exported model, without data: its example is shown")
    found = exported(texts)
    view.add_answers(found)
    view.add_densities(found)
    view.add_examples([_of_answer(name, answer) for answer in found])
    if not view.texts and not view.examples:
        view.notes.append(f"{name} returns no attention weights, so there are none to show")
    return view


def _add_maps(
    view: View,
    task: Task,
    model: keras.Model,
    texts: Sequence[str],
    answers: Sequence[dict[str, Any]],
) -> Titles:
    """Add the heat maps of texts; return the titles of their matrices, if they could be probed."""
    pairs = zip(texts, answers, strict=False)
    try:
        read = [_example(task, model, view.name, *pair) for pair in pairs]
    except UserError:  # the task cannot tokenize texts for a report, but may explain its answers
        try:
            explained = task.explain(model, texts)
            view.add_examples([_of_answer(view.name, answer) for answer in explained])
        except UserError as error:
            view.notes.append(f"{view.name}: {error}")
        return {}
    view.add_examples([example for example, _ in read])
    return read[0][1]


def _of_answer(name: str, answer: dict[str, Any]) -> Example:
    """Return an example with the heat maps in its answer."""
    return Example(f"{name}: {answer['input']}", summary(answer), from_answer(answer))


def _example(
    task: Task, model: keras.Model, name: str, text: str, answer: dict[str, Any]
) -> tuple[Example, Titles]:
    """Return an example with its heat maps, and the titles of its matrices."""
    texts = task.tokenize([text])
    _, maps = probe(model, texts.argument)
    blank, lengths = texts.blank()
    maps = with_sequences(maps, lengths, probe(model, blank.argument)[1])
    tokens = {side: rows[0] for side, rows in texts.tokens.items()}
    # A map with one row of weights is already shown on the tokens of the answer.
    weighed = "tokens" in answer and "weights" in answer
    shown = heat_maps(maps, tokens)
    if weighed:
        shown = [one for one in shown if any(len(panel.rows) > 1 for panel in one.panels)]
    titles = {
        one.layer: {key: recorded.label for key, recorded in one.matrices.items()} for one in maps
    }
    return Example(f"{name}: {text}", summary(answer), shown), titles


def _from_checkpoints(folder: RunFolder, model: keras.Model, inputs: Any) -> list[dict[str, Any]]:
    """Measure the saved checkpoints of a run without records; the model keeps the last weights."""
    figures, checkpoints = AttentionFigures(model, inputs), Checkpoints(folder.checkpoints, keep=0)
    groups = {"trainable": model.trainable_variables, "state": model.non_trainable_variables}
    rows: list[dict[str, Any]] = []
    for step in checkpoints.steps():
        for group, variables in groups.items():
            assign(variables, checkpoints.read(step, group), checkpoints.file(step))
        rows.append({"step": step, **figures.measure()})
    return rows


def _over_training(name: str, origin: str, rows: list[dict[str, Any]], titles: Titles) -> Section:
    drawings, table = [], [["layer", "matrix", "near −1", "near 0", "near 1"]]
    layers: Titles = {}
    for key in rows[-1]["matrices"]:
        layer, _, matrix = key.rpartition("/")
        layers.setdefault(layer, {})[matrix] = titles.get(layer, {}).get(matrix, matrix)
    for layer, labels in layers.items():
        drawings.append(histograms(slug(f"{name} {layer} histograms"), layer, rows, labels))
        for matrix, label in labels.items():
            last = shares(rows[-1]["matrices"][f"{layer}/{matrix}"]).values()
            table.append([layer, label, *(f"{share:.3f}" for share in last)])
    text = f"Histograms {origin}; the table shows the last update, {rows[-1]['step']}."
    return Section(f"Matrices over training: {name}", drawings, text, table)


def slug(name: str) -> str:
    """Turn a name into a file name.

    >>> slug("trec bilstm_gated/attention (MultiHeadCoDA)")
    'trec-bilstm_gated-attention-MultiHeadCoDA'
    """
    return re.sub(r"[^A-Za-z0-9_.]+", "-", name).strip("-")


def with_received(task: Task, model: keras.Model, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer with the mean weight that every token receives in the last attention layer.

    The mean is over heads and attending positions; it describes one layer.
    """
    if "weights" in answer:
        return dict(answer)
    texts = task.tokenize([answer["input"]])
    (tokens,) = next(iter(texts.tokens.values()))
    _, maps = probe(model, texts.argument)
    for one in reversed(maps):
        recorded = one.matrices.get("weights")
        if recorded is None or len(recorded.values.shape) < 3 or not tokens:
            continue
        # (1, ..., N, T, S), without padding
        values = keras.ops.convert_to_numpy(keras.ops.cast(recorded.values, "float32"))[0]
        values = values.reshape((-1, *values.shape[-2:]))[:, : len(tokens), : len(tokens)]
        source = f"weights received in {one.layer}, mean of {len(values)} heads"
        weights = np.mean(values, axis=(0, 1)).tolist()
        return {**answer, "tokens": tokens, "weights": weights, "weights_of": source}
    return dict(answer)
