"""Write the report of several runs: what it shows of each model, on one HTML page."""

import dataclasses
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np

from keras_quasiattn.attention.probe import probe, with_sequences
from keras_quasiattn.errors import UserError
from keras_quasiattn.extras import require
from keras_quasiattn.files import read_json_lines, write
from keras_quasiattn.lab.report.measured import (
    Reached,
    chosen_answers,
    confusion_section,
    figures_section,
    number_text,
    spaced,
)
from keras_quasiattn.lab.serving.exported_model import ExportedModel
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.tasks.measured import Judged
from keras_quasiattn.lab.tasks.preset import SPLITS
from keras_quasiattn.lab.training import RunFolder
from keras_quasiattn.lab.training.attention_summaries import read_attention
from keras_quasiattn.lab.training.checkpoints import Checkpoints
from keras_quasiattn.lab.training.config import flat
from keras_quasiattn.report.attention_figures import AttentionFigures, shares
from keras_quasiattn.report.figures import (
    Drawing,
    accuracy_by_density,
    curves_of,
    density_by_length,
    heat_map,
    histograms,
    learning_curves,
    with_runs,
)
from keras_quasiattn.report.heat_maps import Example, from_answer, heat_maps
from keras_quasiattn.report.page_writer import Section, page, summary
from keras_quasiattn.serving.server_files import GRAPH

# Titles of matrices, by layer and by name of the matrix.
Titles = dict[str, dict[str, str]]

SHOWN = 6  # number of texts with heat maps and tokens on the page
_MEASURED = 32  # number of texts on which to measure saved checkpoints
_NAMED = 4  # number of models or runs in the title
_SPLIT = "validation"  # the split that chose the checkpoint, which every run has
_SHOWN, _LONGEST = 20, 60  # largest number of differences in a table, and of characters in each
# The version of the data has a digest of these files, so their paths do not matter.
_PATHS = {f"data.{split}" for split in SPLITS}


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
            if not inputs:
                judged = chosen_answers(
                    view.reached.measured.judged, lambda one: _accepts(task, one)
                )
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


def _accepts(task: Task, text: str) -> bool:
    """Return whether `predict` takes a text; it refuses some that training and measuring cut."""
    try:
        task.check_input(text)
    except UserError:
        return False
    return True


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
    titles = {one.layer: {key: kept.label for key, kept in one.matrices.items()} for one in maps}
    return Example(f"{name}: {text}", summary(answer), shown), titles


def _from_checkpoints(folder: RunFolder, model: keras.Model, inputs: Any) -> list[dict[str, Any]]:
    """Measure the saved checkpoints of a run without records; the model keeps the last weights."""
    figures, checkpoints = AttentionFigures(model, inputs), Checkpoints(folder.checkpoints, keep=0)
    rows: list[dict[str, Any]] = []
    for step in checkpoints.steps():
        checkpoints.restore(step, model)
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


def write_report(
    sources: Sequence[str | Path],
    to: str | Path,
    *,
    inputs: Sequence[str] = (),
    split: str | None = None,
    limit: int = 1000,
    results: str | Path | None = None,
    data_dir: str | Path = "data",
) -> list[Path]:
    """Write one HTML page about runs and exported models, and its figures; return their paths.

    The page, which is self-contained, shows the metrics of the runs and of simple baselines,
    confused classes, right answers and mistakes with their weights, heat maps, and learning curves.
    Runs that differ only in their seed share a curve and a name; everything else describes the
    first finished one. If runs of one model differ in more, a table lists the differences.

    Args:
        sources: folders of runs, finished or not, and of exported models (the folder of a version).
        to: the HTML file; the figures go, as SVG and PNG, to a folder next to it, named like the
            file with "_figures" instead of the extension.
        inputs: texts to show, the texts of a pair separated by tabs. Defaults to right answers and
            mistakes of `split`.
        split: the part of the data to measure on. Defaults to the validation data, if present:
            nothing is downloaded or generated, and without data the page shows the task's example.
        limit: number of examples of `split` to measure on. Defaults to 1000.
        results: a JSON Lines file of recorded results, to plot accuracy against density.
        data_dir: folder of the runs' data. Defaults to "data".

    Raises:
        UserError: a folder is neither a run nor an exported model, an input is invalid, data are
            missing, a file cannot be read or written, or jinja2 or matplotlib is not installed.

    ```python
    write_report(
        ["runs/coda-seed0", "runs/coda-seed1", "runs/softmax-seed0"], "report.html", data_dir="data"
    )
    ```
    """
    for package in ("jinja2", "matplotlib"):  # before models answer, which takes time
        require(package, "report")
    to = Path(to)
    folders: list[RunFolder] = []
    views: list[View] = []
    for source in map(Path, sources):
        if (source / GRAPH).is_file():
            name = f"{source.resolve().parent.name}/{source.name} (exported)"
            views.append(view_of_saved_model(name, ExportedModel(source), inputs))
        else:
            folders.append(RunFolder.open(source))
    groups = groups_of(folders)
    for group in groups:
        for folder in [one for one in group.runs if one.finished][:1]:
            place, part, needed = Path(data_dir), split or _SPLIT, split is not None
            views.append(view_of_run(group.name, folder, place, inputs, part, limit, needed=needed))
    measured = [view.reached for view in views if view.reached is not None]
    lead = [figures_section(measured)] if measured else []
    lead += [section for section in map(confusion_section, measured) if section is not None]
    sections = _curves(groups)
    if table := differences_of(groups):
        sections.append(Section("What sets the runs apart", table=table))
    sections += [section for view in views for section in view.sections]
    if results is not None:
        plot = accuracy_by_density("accuracy_by_density", _rows(Path(results)))
        sections.append(Section("Accuracy against density", [plot]))
    drawn = [figure for view in views for figure in view.figures]
    drawn += [figure for section in sections for figure in section.saved or section.figures]
    html = page(
        _title([view.name for view in views] or [folder.path.name for folder in folders]),
        facts=[_facts(folder) for folder in folders],
        notes=[note for view in views for note in view.notes],
        lead=lead,
        examples=[example for view in views for example in view.examples],
        texts=[text for view in views for text in view.texts],
        sections=sections,
    )
    write(to, html)
    place = to.with_name(f"{to.stem}_figures")
    return [to, *(file for figure in _named_apart(drawn) for file in figure.save(place))]


def _named_apart(drawn: Sequence[Drawing]) -> Iterator[Drawing]:
    """Number figures of one name: names that differ in no Latin letter have the same slug."""
    seen: Counter[str] = Counter()
    for figure in drawn:
        seen[figure.name] += 1
        ending = f"-{seen[figure.name]}" if seen[figure.name] > 1 else ""
        yield dataclasses.replace(figure, name=figure.name + ending)


@dataclasses.dataclass(frozen=True)
class RunGroup:
    """Runs of one model on one data set with the same options and versions; only seeds differ."""

    source: tuple[str, str]
    label: str
    runs: Sequence[RunFolder]
    differing: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the group on the page."""
        return " ".join((*self.source, self.label))


def groups_of(folders: Sequence[RunFolder]) -> list[RunGroup]:
    """Group runs that differ only in their seed, in the order of their first runs."""
    found: dict[str, tuple[dict[str, Any], list[RunFolder]]] = {}
    for folder in folders:
        traits = _traits(folder.config)
        found.setdefault(repr(sorted(traits.items())), (traits, []))[1].append(folder)
    folder_names = _folder_names([runs for _, runs in found.values()])
    groups: list[RunGroup] = []
    for (traits, runs), name in zip(found.values(), folder_names, strict=True):
        alike = [other for other, _ in found.values() if _base(other) == _base(traits)]
        task, preset, model = _base(traits)
        label = model if len(alike) == 1 else f"{model} ({name})"
        groups.append(RunGroup((task, preset), label, runs, _differing(traits, alike)))
    return groups


def differences_of(groups: Sequence[RunGroup]) -> list[list[str]]:
    """Return a table of the differences between groups of one model; empty if there are none."""
    apart = [group for group in groups if group.differing]
    names = list(dict.fromkeys(name for group in apart for name in group.differing))
    rows = [[name, *(group.differing.get(name, "") for group in apart)] for name in names[:_SHOWN]]
    if len(names) > _SHOWN:
        rows.append([f"{len(names) - _SHOWN} more", *("" for _ in apart)])
    if not rows:
        return []
    table = [["", *(group.label for group in apart)], *rows]
    return [list(cells) for cells in zip(*table, strict=True)] if len(apart) > len(rows) else table


def _traits(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything that distinguishes a run, except its seed."""
    data = config.get("data") or {}
    traits = flat(config)
    traits.pop("seed", None)
    if data.get("version"):
        traits = {name: value for name, value in traits.items() if name not in _PATHS}
    versions = {f"version of {name}": value for name, value in config["versions"].items()}
    return {**traits, **{f"data {name}": value for name, value in data.items()}, **versions}


def _base(traits: Mapping[str, Any]) -> tuple[str, str, str]:
    return traits["task"], traits.get("preset", ""), traits.get("model", "")


def _differing(traits: Mapping[str, Any], alike: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    differing = {}
    for name in sorted(set().union(*alike)):
        if any(one.get(name) != traits.get(name) for one in alike):
            text = str(traits.get(name, "—"))
            differing[name] = text if len(text) <= _LONGEST else f"…{text[1 - _LONGEST :]}"
    return differing


def _folder_names(groups: Sequence[Sequence[RunFolder]]) -> list[str]:
    """Return the common part of each group's folder names, with parents if two are equal."""
    deepest = max((len(run.path.parts) for one in groups for run in one), default=0)
    for parts in range(1, deepest + 1):
        names = [_common(["/".join(run.path.parts[-parts:]) for run in one]) for one in groups]
        if len(set(names)) == len(names):
            return names
    return [str(one[0].path) for one in groups]


def _common(names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    prefix = "".join(letters[0] for letters in alike)
    return re.sub(r"[-_.]*(seed\d*)?[-_.]*$", "", prefix) or names[0]


def _title(names: Sequence[str]) -> str:
    """Return the title of a page about models or runs; it names the first ones."""
    own = list(dict.fromkeys(names))
    more = f" and {len(own) - _NAMED} more" if len(own) > _NAMED else ""
    return f"Report: {', '.join(own[:_NAMED])}{more}"


def _facts(folder: RunFolder) -> tuple[str, str]:
    """Return a run's name, and its command, data and metrics."""
    figures = [
        f"{split} {name} {number_text(value)}"
        for split, all_ in folder.metrics().items()
        for name, value in all_.items()
        if isinstance(value, (int, float))  # leave out the signature and the metrics by class
    ]
    data = folder.noted.get("data", {})
    described = " ".join(data.values()) if isinstance(data, dict) else ""
    facts = [folder.config.get("command", ""), described, ", ".join(figures)]
    return folder.path.name, "; ".join(filter(None, facts))


def _curves(groups: Sequence[RunGroup]) -> list[Section]:
    """Return one section per preset, with a plot of the loss and of each validation metric."""
    sections = []
    for preset in dict.fromkeys(group.source for group in groups):
        own = [group for group in groups if group.source == preset]
        histories = [(group.label, run.history()) for group in own for run in group.runs]
        named = {name for _, rows in histories for row in rows for name in row}
        wanted = ["loss", *sorted(name for name in named if name.startswith("val_"))]
        found = {figure: curves_of(histories, figure) for figure in wanted}
        # All figures have the same order of models, and so the same colours.
        models = sorted({model for curves in found.values() for model in curves})
        kept = {figure: curves for figure, curves in found.items() if curves}
        shown, saved = [], []
        for figure, curves in kept.items():
            own_name = figure.removeprefix("val_")
            of = "validation" if own_name != figure else "training"
            name = slug(" ".join((*preset, figure)))
            drawn = (name, f"{of} {spaced(own_name)}", curves, models)
            shown.append(learning_curves(*drawn, small=True))
            saved.append(learning_curves(*drawn, small=False))
        if shown:
            of_model = {model: curve for curves in kept.values() for model, curve in curves.items()}
            legend = [with_runs(model, of_model[model]) for model in models]
            several = any(curve[0]["runs"] > 1 for curve in of_model.values())
            text = "The mean of the runs, shaded from the lowest to the highest." if several else ""
            title = f"Learning curves: {' '.join(preset)}"
            sections.append(Section(title, shown, text, legend=legend, saved=saved))
    return sections


def _rows(file: Path) -> list[dict[str, Any]]:
    needed = {"density", "accuracy", "preset"}
    found = [row for row in read_json_lines(file) if needed <= row.keys()]
    if not found:
        raise UserError(f"{file} has no row with density, accuracy and preset")
    # Of one split, and of each run the last record.
    splits = [row.get("split", "test") for row in found]
    split = "test" if "test" in splits else splits[0]
    of_split = [row for row, one in zip(found, splits, strict=True) if one == split]
    return list({_run_of(row): row for row in of_split}.values())


def _run_of(row: Mapping[str, Any]) -> str:
    names = ("task", "preset", "model", "seed", "options")
    return json.dumps([row.get(name) for name in names], sort_keys=True)
