"""The contract between a task and everything above it: training, serving and the command line."""

import abc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import keras
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks.preset import Preset
from keras_quasiattn.tasks.reading import Reading


class ServingSignature(NamedTuple):
    """What an exported model answers with: strings in, or the ids of their tokens; a dictionary of tensors out.

    Args:
        function: takes the tensors of `input_signature`, returns a dictionary of tensors with the batch as their
            first axis.
        input_signature: one named spec of strings an argument, with the batch and the length left open.
        resources: what owns the tables that the functions use, beside the model.
        tokenize: strings (n,) to the ids that the model reads of each, ragged int32 (n, ids), without padding.
        answer_ids: takes, for each argument of `input_signature` in its order, its texts' ids: int32 of the argument's
            shape with a last axis more, of at least 1, and 0 behind a text's end. Any number may be among them.
            Returns those of the outputs of `function` that need no text, under the same names.
        columns: parts one input of `predict` into what each argument has of it, without the batch.
    """

    function: Callable[..., dict[str, tf.Tensor]]
    input_signature: list[tf.TensorSpec]
    resources: list[Any]
    tokenize: Callable[[tf.Tensor], tf.RaggedTensor]
    answer_ids: Callable[..., dict[str, tf.Tensor]]
    columns: Callable[[str], list[Any]] = lambda text: [text]


class Task(abc.ABC):
    """One problem with its data, its models, its measures and its presets.

    A task is made from names and values alone, so that `config` rebuilds it in another process; making one
    reads and writes no file. The folder of the data is a place on one machine and no part of the config.

    Args:
        preset: name of one of `presets`.
        model: name of one of `models`.
        seed: fixes the weights' first values, all noise and the order of the data; in [0, 2**32).
        data_dir: folder in which the data lie or will be made.
        overrides: values for single options of the preset, by dotted name, such as `{"model.width": 64}`.

    Attributes:
        name: what the command line calls the task.
        summary: one line that says what is asked and what is answered.
        models: names of the models that can be trained.
        presets: named sets of options; the first is the command line's default.
        own_data: the preset for a user's own files, and its option that names the file to train on; None where a
            task knows its data.
        options: the preset with the overrides applied.

    Raises:
        UserError: an unknown preset, model or option, a value that does not suit its option, or a bad seed.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    models: ClassVar[tuple[str, ...]]
    presets: ClassVar[Mapping[str, Preset]]
    own_data: ClassVar[tuple[str, str] | None] = None

    def __init__(
        self,
        *,
        preset: str,
        model: str,
        seed: int,
        data_dir: str | Path,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        if preset not in self.presets:
            raise UserError.unknown(f"preset of task {self.name}", preset, self.presets)
        if model not in self.models:
            raise UserError.unknown(f"model of task {self.name}", model, self.models)
        if not 0 <= seed < 2**32:
            raise UserError(f"seed is {seed}: it must be at least 0 and below 2**32")
        self.preset = preset
        self.model = model
        self.seed = seed
        self.data_dir = Path(data_dir)
        self.options = self.presets[preset].for_model(model).with_overrides(overrides or {})
        self._set_up()

    def _set_up(self) -> None:  # noqa: B027 (a task may have nothing of its own)
        """Refuse options that do not suit the task, and make what follows from them; a task's own comes after this.

        Raises:
            UserError: such an option.
        """

    def config(self) -> dict[str, Any]:
        """Everything that fixes the task but the folder of its data, JSON-able.

        All options are written out, so that a preset which changes later changes no run made before.
        """
        return {
            "preset": self.preset,
            "model": self.model,
            "seed": self.seed,
            "options": self.options.options(),
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any], data_dir: str | Path) -> Self:
        """The task that `config()` described."""
        return cls(
            preset=config["preset"],
            model=config["model"],
            seed=config["seed"],
            data_dir=data_dir,
            overrides=config["options"],
        )

    @property
    @abc.abstractmethod
    def example(self) -> str:
        """An input that `predict` understands under these options."""

    @abc.abstractmethod
    def prepare(self) -> None:
        """Make the data in `data_dir`; does nothing where they are there already.

        Raises:
            UserError: the folder cannot be written, or the data are too few for the options.
        """

    def describe_data(self) -> dict[str, str]:
        """What the prepared data are: `version`, and `note` where they are not the whole published set.

        It goes into every record of a figure. The default says nothing, for data made by rule.
        """
        return {}

    def assets(self) -> dict[str, bytes]:
        """What the task has learned from its prepared data and needs to answer: contents by file name.

        A run keeps them, and `read_assets` brings them back without the data. The default has none.
        """
        return {}

    def read_assets(self, folder: Path) -> None:
        """Bring back the `assets` that a run wrote to its folder.

        Raises:
            UserError: one of them is missing or damaged.
        """
        return None

    @abc.abstractmethod
    def build_model(self) -> keras.Model:
        """A new model, built and not compiled; its first weights follow Keras' global seed.

        Raises:
            UserError: values of the model's options that do not go together.
        """

    def check_model(self, model: keras.Model) -> None:
        """Refuse a model that cannot be one of this task with these assets. The default takes any.

        Raises:
            UserError: naming what does not go together.
        """
        return None

    @abc.abstractmethod
    def loss(self) -> keras.losses.Loss:
        """What training makes small."""

    @abc.abstractmethod
    def metrics(self) -> list[keras.metrics.Metric]:
        """What training and validation report beside the loss."""

    @abc.abstractmethod
    def training_data(self, first_step: int) -> tf.data.Dataset:
        """An infinite stream of batches of `options.training.batch_size`, as `fit` takes them.

        It depends on the options and the seed alone. From `first_step` on it gives exactly what an
        undisturbed stream gives from there, and every iterator over it gives the same: `fit` may begin it
        twice. (A `shuffle` needs a seed and `reshuffle_each_iteration=False`.)

        Args:
            first_step: number of batches to leave out at the front, as if they had been used.
        """

    @abc.abstractmethod
    def validation_data(self) -> tf.data.Dataset:
        """A finite set of batches that no training batch shares an example with.

        Replicas must be able to share every batch evenly, or they weigh it wrongly.
        """

    @abc.abstractmethod
    def evaluate(
        self, model: keras.Model, split: str = "test", limit: int | None = None
    ) -> Mapping[str, float | str]:
        """The task's own figures, from answers decoded as in `predict` and not from the given target.

        A text among them says how a figure was measured.

        Args:
            model: a trained model of this task.
            split: part of the data to measure on.
            limit: number of examples to measure on; None takes them all.

        Raises:
            UserError: an unknown split, or a limit below 1.
        """

    @abc.abstractmethod
    def predict(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """One answer an input, with its log-probability or other figures.

        Raises:
            UserError: an input that `check_input` refuses.
        """

    def explain(self, model: keras.Model, inputs: Sequence[str]) -> list[dict[str, Any]]:
        """What `predict` gives, and where the model looked, where `predict` leaves that out.

        Raises:
            UserError: an input that `check_input` refuses, or a model that looks nowhere.
        """
        return self.predict(model, inputs)

    @abc.abstractmethod
    def check_input(self, text: str | bytes) -> None:
        """Refuse what the task cannot answer.

        Raises:
            UserError: naming the input and what would be right.
        """

    def texts(self, split: str, limit: int) -> list[str]:
        """The first inputs of a part of the data, as `predict` and `read` take them.

        Raises:
            UserError: an unknown split, or data that are not there. The default has none.
        """
        raise UserError(f"task {self.name} has no texts to list")

    def read(self, texts: Sequence[str]) -> Reading:
        """Inputs as the model is given them, with the tokens at their positions.

        Raises:
            UserError: an input that `check_input` refuses. The default reads none.
        """
        raise UserError(f"task {self.name} cannot show what its model attends to")

    @abc.abstractmethod
    def serving_signature(self, model: keras.Model) -> ServingSignature:
        """How an exported model is called: with strings, which the graph handles, or with the ids of their tokens."""
