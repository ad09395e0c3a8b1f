"""The interface of tasks for training, serving, reports and the command line."""

import abc
import contextlib
import functools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from keras_quasiattn.core.recording import is_recording
from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks.batches import FILE
from keras_quasiattn.lab.tasks.catalogue import CATALOGUE, chosen_options
from keras_quasiattn.lab.tasks.measured import (
    Measured,
    behind_simple_methods,
    flat_figures,
    open_gates,
)
from keras_quasiattn.lab.tasks.preset import Preset, TrainingSettings


class ServingSignature(NamedTuple):
    """How to call an exported model with strings or token ids; it returns a dictionary of tensors.

    Args:
        function: takes the tensors of `input_signature` and returns a dictionary of tensors whose
            first axis is the batch.
        input_signature: one named string spec per argument; its axes are all None.
        resources: the objects, besides the model, that own the lookup tables of the functions.
        tokenize: maps strings (n,) to the ids that the model reads, ragged int32 (n, ids), without
            padding.
        answer_ids: takes, for each argument of `input_signature` in order, the token ids of its
            texts: int32 of the argument's shape plus a last axis of length 1 or more, with 0 after
            the end of a text. It accepts any integer as an id. Returns, under the same names, the
            outputs of `function` that do not need the text.
        columns: splits one input of `predict` into a value for each argument, without the batch
            axis.
        longest: maximum number of ids per text, for a model that answers in one call, of `explain`
            or of itself, with only ids (B, L); otherwise None.
        joined: number of special ids added, if the model reads all texts of an input as one
            sequence; 0 if it reads each text separately. Defaults to 0.
        model_ids: maps one input of `predict` to the ids (1, L) that the model reads, by input
            name; None if it reads the ids of each argument.
        own_ids: whether the model needs only its token ids; False for a reader, whose ids are code
            points. Defaults to True.
    """

    function: Callable[..., dict[str, tf.Tensor]]
    input_signature: list[tf.TensorSpec]
    resources: list[Any]
    tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
    answer_ids: Callable[..., dict[str, tf.Tensor]]
    columns: Callable[[str], list[Any]] = lambda text: [text]
    longest: int | None = None
    joined: int = 0
    model_ids: Callable[[str], dict[str, np.ndarray]] | None = None
    own_ids: bool = True


class TokenizedTexts(NamedTuple):
    """A batch of texts as model inputs, with the token at every position of each side.

    Args:
        inputs: the model's input: ids (B, length) by side, and further inputs (B, length, ...) of a
            side, named "side_…"; a model with one input takes the array.
        tokens: by side, a list of tokens for each text, without padding.
    """

    inputs: dict[str, np.ndarray]
    tokens: dict[str, list[list[str]]]

    @property
    def argument(self) -> dict[str, np.ndarray] | np.ndarray:
        """The model's input: the dictionary, or the only array."""
        return self.inputs if len(self.inputs) > 1 else next(iter(self.inputs.values()))

    def blank(self) -> tuple["TokenizedTexts", dict[str, int]]:
        """Return padding instead of texts, with a separate length for each side, and these lengths.

        The shapes of the model's results then show which side an axis belongs to.

        >>> ids = np.ones((1, 4), int)
        >>> texts = TokenizedTexts({"first": ids, "second": ids}, {"first": [], "second": []})
        >>> blank, lengths = texts.blank()
        >>> lengths, [ids.shape for ids in blank.inputs.values()]
        ({'first': 2, 'second': 3}, [(1, 2), (1, 3)])
        """
        lengths = {side: length for length, side in enumerate(self.tokens, start=2)}
        inputs = {
            name: np.zeros((1, lengths[name.partition("_")[0]], *ids.shape[2:]), ids.dtype)
            for name, ids in self.inputs.items()
        }
        return self._replace(inputs=inputs, tokens={}), lengths


def plain_tokens(rows: tf.RaggedTensor) -> list[list[str]]:
    """Return ragged tokens as lists of strings."""
    return [[token.decode("utf-8", "replace") for token in row] for row in rows.to_list()]


class Task(abc.ABC):
    """One problem with its data, models, metrics and presets.

    A task is built from names and plain values only, so `config` can rebuild it in another process.
    Building one reads and writes no files. The data folder is a path on one machine and is not part
    of the config. In any method, an error that the user can fix is a `UserError`.

    Args:
        preset: name of one of `presets`.
        model: name of one of `models`.
        seed: sets the initial weights, all noise and the order of the data; in [0, 2**32).
        data_dir: folder where the data is or will be created.
        overrides: values for options of the preset, by dotted name, such as `{"model.width": 64}`.

    Attributes:
        name: the task's name on the command line.
        summary: one line on the input and the answer.
        figure: the name of the main metric, by which models are compared.
        shares: the metrics that are shares of examples.
        models: names of the models that can be trained.
        presets: named sets of options; the first is the command line's default.
        attention_defaults: for each attention, options that fit the task's models better than its
            defaults.
        own_data: the preset for a user's own files, and its option that names the training file;
            None for a task that generates its data.
        own_files: the command line's options that name the user's files to train on.
        weighted_metrics: whether the metrics take the weights of the validation examples; the loss
            always does.
        has_classes: whether the training examples have classes, which can be weighted.
        counts_tokens: whether `training.batch_size` is a number of tokens.
        measures_training: whether the metrics also measure training batches; if not, the history
            has only their validation values.
        sources: where the examples of each preset come from; a `sources.Source`, if anything.
        least: the least value of options, by dotted name.
        input_columns: columns of a table whose rows `predict` can answer, joined by tabs; empty if
            inputs are not rows.
        answer_names: keys of an answer that are not part of its explanation; None for all keys of
            `predict`.
        options: the preset for this model, with the overrides applied.

    Raises:
        UserError: the preset, the model or an option is unknown, a value is not valid for its
            option, or the seed is out of range.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    figure: ClassVar[str]
    shares: ClassVar[tuple[str, ...]] = ()
    models: ClassVar[tuple[str, ...]]
    presets: ClassVar[Mapping[str, Preset]]
    attention_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    own_data: ClassVar[tuple[str, str] | None] = None
    own_files: ClassVar[str] = "--data FILE"
    weighted_metrics: ClassVar[bool] = False
    has_classes: ClassVar[bool] = False
    counts_tokens: ClassVar[bool] = False
    measures_training: ClassVar[bool] = True
    sources: ClassVar[Mapping[str, Any]] = {}
    least: ClassVar[Mapping[str, int]] = {}
    input_columns: tuple[str, ...] = ()
    answer_names: ClassVar[tuple[str, ...] | None] = None

    def __init_subclass__(cls, **_: Any) -> None:
        super().__init_subclass__()
        if entry := CATALOGUE.get(cls.__dict__.get("name", "")):
            cls.summary, cls.models, cls.presets = entry.summary, entry.models, entry.presets
            cls.own_data = entry.own_data
            cls.own_files = entry.own_files

    def __init__(
        self,
        *,
        preset: str,
        model: str,
        seed: int,
        data_dir: str | Path,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        self.preset = preset
        self.model = model
        self.seed = seed
        self.data_dir = Path(data_dir)
        self._file: Any = None  # the examples of a user's file, for `measure`
        self._graphs: dict[str, tuple[list[Any], Any]] = {}  # see `_once`
        self.options = chosen_options(
            self.name, self, preset=preset, model=model, seed=seed, overrides=overrides or {}
        )
        self._set_up()

    def _set_up(self) -> None:
        """Check the options and initialize from them; subclasses call `super()` first."""
        if (weights := self.options.training.class_weights) != "none" and not self.has_classes:
            raise UserError(
                f"training.class_weights is {weights!r}: task {self.name} has no classes, so it "
                "must be 'none'"
            )
        for name, least in self.least.items():
            if not self.options[name] >= least:
                raise UserError(f"{name} is {self.options[name]}: it must be at least {least}")

    def config(self) -> dict[str, Any]:
        """Return everything that defines the task except its data folder; JSON-serializable.

        It contains every option, so later changes to a preset do not affect earlier runs.
        """
        names = {"preset": self.preset, "model": self.model, "seed": self.seed}
        return {**names, "options": self.options.options()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], data_dir: str | Path) -> "Task":
        """Return the task that this `config()` describes."""
        return cls(
            preset=config["preset"],
            model=config["model"],
            seed=config["seed"],
            data_dir=data_dir,
            overrides=config["options"],
        )

    @property
    def example(self) -> str:
        """An example input for `predict` under these options."""
        return self.sources[self.preset].example

    @functools.cached_property
    def _loaded(self) -> tuple[Any, str]:
        """The data, and a note (possibly empty) on the part used and what was held out."""
        return self._load()

    def _load(self) -> tuple[Any, str]:
        return self.sources[self.preset].load(self.options.data, self.data_dir)

    @contextlib.contextmanager
    def _suiting(self, options: str) -> Iterator[None]:
        """Turn a ValueError in the `with` block into an error about "model" or "data" options."""
        try:
            yield
        except ValueError as error:
            reason = " ".join(str(error).split())
            raise UserError(
                f"the {options} options do not suit task {self.name}: {reason}"
            ) from error

    @abc.abstractmethod
    def prepare(self) -> None:
        """Create the data in `data_dir`, unless it is already there."""

    def pending_download(self) -> str:
        """Return what `prepare` would download, such as "trec (0.3 MiB from cogcomp.org)".

        The result is empty if nothing is missing.
        """
        source = self.sources.get(self.preset)
        return source.pending_download(self.data_dir) if source else ""

    def missing_data(self) -> str:
        """Describe in one line what `prepare` would have to download or generate, if anything."""
        source = self.sources.get(self.preset)
        if source is None or source.is_prepared(self.data_dir, self.options.data):
            return ""
        return f"{self.data_dir} does not have the data of the preset {self.preset}"

    @property
    def measured_split(self) -> str:
        """The split to measure on: "validation" where the user's own files have no test file."""
        data = self.options.data
        return "validation" if data.get("test") == "" and not data["test_share"] else "test"

    @property
    def training_settings(self) -> TrainingSettings:
        """`options.training`, with its passes in updates; call `prepare` first."""
        training = self.options.training
        return training if training.passes is None else training.over(self.batches_per_pass())

    def batches_per_pass(self) -> int:
        """Return the number of training batches in a pass; by default, raise a `UserError`."""
        raise UserError(
            f"training.passes is {self.options.training.passes}: task {self.name} does not count "
            "passes, so it must be none"
        )

    def remarks(self) -> list[str]:
        """Return lines to print once the data are prepared; none by default."""
        return []

    def doubts(
        self, figures: Mapping[str, Any], baselines: Mapping[str, Measured], measured_on: str
    ) -> list[str]:
        """Return warnings, such as for a model that is not ahead of a baseline, or for open gates.

        `figures` and `baselines` are results on the same examples, which are called `measured_on`.
        """
        own = "model.gate_cost" if "gate_cost" in self.options.model else ""
        lines = open_gates(figures, own or "model.attention_options.open_gate_cost")
        if baselines:
            select = self.options.training.select
            known = {name for one in baselines.values() for name in one.figures}
            figure = select if select in known else self.figure
            remedies = "more rows or longer training"
            if self.options.takes_vectors and not self.options.data["vectors"]:
                remedies = f"word vectors, {remedies}"
            lines += behind_simple_methods(figures, baselines, figure, measured_on, remedies)
        return lines

    def describe_data(self) -> dict[str, str]:
        """Return the `version` of the data, and a `note` if it is not the whole published set.

        Runs and recorded results include both. The default is empty, for generated data.
        """
        return {}

    def assets(self) -> dict[str, bytes]:
        """Return what the task learned and needs to answer: file contents by name.

        A run stores them, and `read_assets` restores them without the data. The default has none.
        """
        return {}

    @property
    def learns_only_assets(self) -> bool:
        """Whether `assets` contain everything that `prepare` learns.

        If so, a task with the same data options may `read_assets` of this one before `prepare`.
        """
        return True

    def resume(self, folder: Path) -> None:
        """Adopt from a resumed run what this version would otherwise do differently."""
        return None

    def read_assets(self, folder: Path) -> None:
        """Restore the `assets` that a run wrote to its folder."""
        return None

    @abc.abstractmethod
    def build_model(self) -> keras.Model:
        """Return a new, built model, not compiled; Keras' global seed sets its initial weights."""

    def initialize(self, model: keras.Model) -> None:
        """Set the weights that a new run starts from; the default leaves the random ones."""
        return None

    def rate_factors(self, model: keras.Model) -> dict[str, float]:
        """Return factors of the learning rate for some weights, by path; all others have 1."""
        return {}

    def callbacks(self, model: keras.Model) -> list[keras.callbacks.Callback]:
        """Return callbacks that training this model needs; call `prepare` first.

        A callback that changes the model itself, not only its weights, adds `blend` to the logs:
        the share of the change that is done. Only a checkpoint with `blend` 1 can become the
        finished model.
        """
        return []

    def finished(self, model: keras.Model) -> keras.Model:
        """Return the trained model without what only training needs; by default, unchanged."""
        return model

    def check_model(self, model: keras.Model) -> None:
        """Reject a model that does not match this task and its assets; the default accepts any."""
        return None

    @abc.abstractmethod
    def loss(self) -> keras.losses.Loss:
        """Return the training loss."""

    @abc.abstractmethod
    def metrics(self) -> list[keras.metrics.Metric]:
        """Return the metrics that training and validation report besides the loss."""

    @abc.abstractmethod
    def training_data(self, first_step: int) -> tf.data.Dataset:
        """Return an infinite stream of batches of `options.training.batch_size`, for `fit`.

        The stream depends only on the options and the seed. It yields exactly the batches that an
        uninterrupted stream yields from `first_step` on. Every iterator over it yields the same
        batches, because `fit` may start it twice. (A `shuffle` needs a seed and
        `reshuffle_each_iteration=False`.)

        Args:
            first_step: number of batches to skip at the start, as if they had been used.
        """

    @abc.abstractmethod
    def validation_data(self) -> tf.data.Dataset:
        """Return a finite set of batches, without any training example.

        Replicas must be able to share every batch evenly; otherwise they weight it wrongly.
        Examples that only fill a batch have weight 0; see `data.fill_last_batch`.
        """

    def use_file(self, file: str, columns: Mapping[str, str] | None = None) -> None:
        """Load a file in the form of training data as the split "file", for `measure`.

        For each column that is named differently in the file, `columns` has its name there; by
        default, the names are as in training.
        """
        if columns and not any("columns" in one.data for one in self.presets.values()):
            raise UserError(f"--columns: a file of task {self.name} has no columns to name")
        known = self.options.data.get("columns") if columns is None else columns
        self._file = self._read_file(file, known)

    def _read_file(self, file: str, columns: Mapping[str, str] | None) -> Any:
        reason = f"task {self.name} makes its own data: measure a split of it"
        raise UserError(f"--data {file!r}: {reason}")

    def measure(
        self, model: keras.Model, split: str = "test", limit: int | None = None
    ) -> Measured:
        """Return the task's metrics, from answers decoded as in `predict`.

        Args:
            model: a trained model of this task.
            split: split of the data to measure on. Defaults to "test".
            limit: number of examples to measure on; None takes them all.
        """
        return self._measure(model, self._chosen(split, limit))

    def _measure(self, model: keras.Model, chosen: Any) -> Measured:
        """Return the metrics on some examples."""
        raise NotImplementedError

    def _once(self, make: Callable[[Any], Any], of: Any) -> Any:
        """Return the graph `make(of)` of a model or of another graph, which is traced only once.

        It is made again for another `of`, and for a model whose variables are others, as after
        `quantize` and `enable_lora`. While weights are recorded it is not kept, because an edit of
        the weights becomes part of it.
        """
        if is_recording():
            return make(of)
        made_of = [of, *(of.variables if isinstance(of, keras.Model) else ())]
        before, graph = self._graphs.get(make.__name__, ([], None))
        if len(before) != len(made_of) or any(map(operator.is_not, before, made_of)):
            graph = make(of)
            self._graphs[make.__name__] = made_of, graph
        return graph

    def _chosen(self, split: str, limit: int | None) -> Any:
        """Return the first `limit` examples, or all, of a split of the data or of a user's file."""
        if limit is not None and limit < 1:
            raise UserError(f"limit is {limit}: it must be at least 1, or none for all examples")
        if split == FILE and self._file is not None:
            examples = self._file
        elif split in self._data.splits:
            examples = self._data.splits[split]
        elif split == "test":
            raise UserError(
                "the data have no split 'test': "
                "measure with --split validation, or train with data.test=FILE"
            )
        else:
            raise UserError.unknown("split", split, self._data.splits)
        return examples.where(np.arange(len(examples)) < (limit or len(examples)))

    @property
    def _data(self) -> Any:
        """The examples of all splits."""
        return self._loaded[0]

    def evaluate(
        self, model: keras.Model, split: str = "test", limit: int | None = None
    ) -> Mapping[str, Any]:
        """Return the metrics of `measure`."""
        return self.measure(model, split, limit).figures

    def measure_baselines(
        self, split: str = "test", limit: int | None = None
    ) -> Mapping[str, Measured]:
        """Return the metrics of baselines without attention on the same examples, by name.

        Arguments and errors are as in `measure`. The default has no baselines.
        """
        return {}

    def baselines(self, split: str = "test", limit: int | None = None) -> dict[str, float]:
        """Return the metrics of `measure_baselines`, such as `bag_of_words_accuracy`."""
        return flat_figures(self.measure_baselines(split, limit))

    def predict(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return one answer per input, with its log-probability or other values."""
        for text in inputs:
            self.check_input(text)
        return self.answer(model, inputs)

    @abc.abstractmethod
    def answer(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Do what `predict` does, but cut inputs that are too long, as an exported model does."""

    def explain(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """Return the answers of `predict` with attention weights, even if `predict` omits them."""
        return self.predict(model, inputs)

    @property
    def explains(self) -> bool:
        """Whether `explain` adds anything to the answers."""
        return self.answer_names is not None or type(self).explain is not Task.explain

    @abc.abstractmethod
    def check_input(self, text: str | bytes) -> None:
        """Reject an input that the task cannot answer, and describe a valid one."""

    def texts(self, split: str, limit: int) -> list[str]:
        """Return the first `limit` inputs of a split, as `predict` and `tokenize` take them."""
        raise UserError(f"task {self.name} has no texts to list")

    def tokenize(self, texts: Sequence[str]) -> TokenizedTexts:
        """Return the inputs as the model receives them, with the token at each position."""
        raise UserError(f"task {self.name} cannot show what its model attends to")

    @abc.abstractmethod
    def serving_signature(self, model: keras.Model) -> ServingSignature:
        """Return the signature of an exported model: strings, which the graph tokenizes, or ids."""
