"""Table 6 of CoDA (arithmetic in characters) on JAX, in portions of a few minutes.

On a machine with TensorFlow, write the paper's questions to a file, once:

    python -m benchmarks.table_6_on_jax prepare mlu.npz

On the machine with the accelerator, Keras, JAX and a checkout of this repository, train for some
minutes. The same command later continues where it stopped, up to the paper's 100,000 updates:

    export KERAS_BACKEND=jax
    python -m benchmarks.table_6_on_jax train mlu.npz runs/softmax --model softmax --minutes 3
    python -m benchmarks.table_6_on_jax measure mlu.npz runs/softmax

The models are those of `quasiattn train mlu --preset paper`: Tensor2Tensor's tiny size with
softmax, or with CoDA whose E and N are divided by H ("coda"), by √H as in eq. 10 ("coda_paper"), or
by H with α and β learned ("coda_learned"). Each should get as many updates as the others.
"""

import argparse
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_quasiattn.files import atomic_file, write_json
from keras_quasiattn.metrics import SequenceAccuracy
from keras_quasiattn.models import SequenceCrossentropy, Transformer
from keras_quasiattn.sizes import TRANSFORMER_SIZES

MODELS: dict[str, dict[str, Any]] = {
    "softmax": {"attention": "softmax"},
    "coda": {"attention": "coda"},
    "coda_paper": {"attention": "coda", "attention_options": {"scaling": "paper"}},
    "coda_learned": {
        "attention": "coda",
        "attention_options": {"alpha": "learned", "beta": "learned"},
    },
}
END, FIRST_BYTE, VOCABULARY = 1, 2, 258  # ids of `lab.text.ByteTokenizer`; 0 is padding
STEPS, BATCH, PERIOD = 100_000, 160, 250  # a period is what a stop may lose
PEAK, WARMUP, SMOOTHING = 2e-3, 8000, 0.1
AVERAGED, EVERY = 8, 1000  # as Tensor2Tensor: the mean of the last weights, so many updates apart


def as_ids(texts: list[str], length: int) -> np.ndarray:
    """Return ids (N, `length`) of the bytes of texts, each with the end of the sequence."""
    ids = np.zeros((len(texts), length), np.uint16)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text) + 1] = [*(byte + FIRST_BYTE for byte in text.encode()), END]
    return ids


def prepare(given: argparse.Namespace) -> None:
    """Write questions and answers as ids; needs TensorFlow, as all of `keras_quasiattn.lab`."""
    from keras_quasiattn.lab.data.arithmetic import ArithmeticMluConfig, generate_examples

    config = ArithmeticMluConfig()
    names = (
        ("source", "expression", config.grammar.longest_expression + 1),
        ("target", "answer", config.grammar.longest_answer + 1),
    )
    arrays = {}
    for split, count in (("train", given.questions), ("test", given.test)):
        rows = [row for _, row in itertools.islice(generate_examples(config, split), count)]
        for name, key, length in names:
            arrays[f"{split}_{name}"] = as_ids([row[key] for row in rows], length)
    np.savez_compressed(given.data, **arrays)


class Questions(keras.utils.PyDataset):
    """Batches of a period, in an order that follows from its number, so that a run can continue."""

    def __init__(self, source: np.ndarray, target: np.ndarray, batch: int) -> None:
        super().__init__()
        self.source, self.target, self.batch = source, target, batch
        self.period, self.pass_number, self.order = 0, -1, np.zeros(0, int)

    def __len__(self) -> int:
        return PERIOD

    def __getitem__(self, index: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
        batches = len(self.source) // self.batch
        number, start = divmod(self.period * PERIOD + index, batches)
        if number != self.pass_number:
            self.order = np.random.default_rng(number).permutation(len(self.source))
            self.pass_number = number
        rows = self.order[start * self.batch : (start + 1) * self.batch]
        return inputs_and_answers(self.source[rows], self.target[rows])


def inputs_and_answers(
    source: np.ndarray, target: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the model's input, the answer shifted behind the start symbol, and the answer."""
    target = target.astype("int32")
    moved = np.concatenate([np.full_like(target[:, :1], END), target[:, :-1]], axis=1)
    return {"source": source.astype("int32"), "target": moved}, target


@keras.saving.register_keras_serializable("table_6_on_jax")
class Warmup(keras.optimizers.schedules.LearningRateSchedule):
    """A linear rise, then the inverse square root of the number of updates, as Tensor2Tensor's."""

    def __call__(self, step: Any) -> Any:
        """Return the rate of the next update."""
        number = ops.cast(step, "float32") + 1.0
        return PEAK * ops.minimum(number / WARMUP, ops.sqrt(WARMUP / number))

    def get_config(self) -> dict[str, Any]:
        """No settings."""
        return {}


def built_model(name: str) -> keras.Model:
    """Return the model with the paper's training settings."""
    model = Transformer(vocabulary_size=VOCABULARY, **{**TRANSFORMER_SIZES["tiny"], **MODELS[name]})
    model.compile(
        keras.optimizers.Adam(Warmup(), beta_2=0.997, epsilon=1e-9),
        SequenceCrossentropy(label_smoothing=SMOOTHING),
        metrics=[SequenceAccuracy()],
    )
    return model


class Kept(keras.callbacks.Callback):
    """Keep the last weights of a run, and end it when its minutes are over."""

    def __init__(self, run: Path, questions: Questions, minutes: float) -> None:
        super().__init__()
        self.run, self.questions = run, questions
        self.end = time.monotonic() + 60 * minutes

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Choose the questions, and note the time."""
        self.questions.period = epoch
        self.begun = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Keep weights now and then, and stop if the next period would last too long."""
        updates, now = (epoch + 1) * PERIOD, time.monotonic()
        over = now + (now - self.begun) > self.end
        self.model.stop_training = over
        if over or not updates % EVERY or updates >= STEPS:
            path = self.run / f"weights-{updates}.npz"
            with atomic_file(path) as temporary, temporary.open("wb") as file:
                np.savez(file, *(weight.numpy() for weight in self.model.trainable_variables))
            for old in kept_weights(self.run)[: -2 * AVERAGED]:
                old.unlink()


def updates_of(path: Path) -> int:
    """Return the number of updates after which a file was written."""
    return int(path.stem.partition("-")[2])


def kept_weights(run: Path) -> list[Path]:
    """Return the files of weights, the oldest first."""
    return sorted(run.glob("weights-*.npz"), key=updates_of)


def train(given: argparse.Namespace) -> None:
    """Continue a run until its minutes or the paper's updates are over."""
    given.run.mkdir(parents=True, exist_ok=True)
    settings = {"model": given.model, "seed": given.seed, "batch": given.batch}
    path = given.run / "settings.json"
    if path.exists() and json.loads(path.read_text()) != settings:
        sys.exit(f"{given.run} is of {path.read_text().strip()}, not of {json.dumps(settings)}")
    write_json(path, settings)
    keras.utils.set_random_seed(given.seed)
    with np.load(given.data) as file:
        questions = Questions(file["train_source"], file["train_target"], given.batch)
    kept = Kept(given.run, questions, given.minutes)
    backup = keras.callbacks.BackupAndRestore(given.run / "backup", delete_checkpoint=False)
    history = keras.callbacks.CSVLogger(given.run / "history.csv", append=True)
    model = built_model(given.model)
    model(inputs_and_answers(questions.source[:1], questions.target[:1])[0])
    model.fit(
        questions,
        epochs=STEPS // PERIOD,
        shuffle=False,
        verbose=2,
        callbacks=[backup, history, kept],
    )


def measure(given: argparse.Namespace) -> None:
    """Return the share of test questions that the mean of the last weights answers, by kind too."""
    settings = json.loads((given.run / "settings.json").read_text())
    files = kept_weights(given.run)
    if not files:
        sys.exit(f"{given.run} has no weights: train it first")
    regular = [path for path in files if not updates_of(path) % EVERY][-AVERAGED:]
    used = regular or files[-1:]
    model = built_model(settings["model"])
    sums: list[np.ndarray] = []
    for path in used:
        with np.load(path) as file:
            arrays = [file[name].astype("float64") for name in file.files]
        sums = [a + b for a, b in zip(sums, arrays, strict=True)] if sums else arrays
    with np.load(given.data) as file:
        source, target = file["test_source"], file["test_target"]
    inputs, answers = inputs_and_answers(source, target)
    model({name: ids[:1] for name, ids in inputs.items()})
    for weight, total in zip(model.trainable_variables, sums, strict=True):
        weight.assign(total / len(used))
    # Teacher forcing: a greedy decoder sees the true past up to its first error.
    likeliest = np.concatenate(
        [
            np.argmax(model.predict_on_batch({k: x[i : i + 500] for k, x in inputs.items()}), -1)
            for i in range(0, len(answers), 500)
        ]
    )
    right = ((likeliest == answers) | (answers == 0)).all(axis=1)
    texts = [bytes(int(i) - FIRST_BYTE for i in row if i > END).decode() for row in source]
    kinds = np.array([f"x{text[-2]}{'x' if text[-1] == text[-3] else 'y'}" for text in texts])
    result = {
        **settings,
        "updates": updates_of(used[-1]),
        "weights averaged": len(used),
        "questions": len(right),
        "sequence_accuracy": float(right.mean()),
        "by_kind": {kind: float(right[kinds == kind].mean()) for kind in sorted(set(kinds))},
    }
    write_json(given.run / "result.json", result)
    print(json.dumps(result, indent=1))


def main(arguments: list[str] | None = None) -> None:
    """Prepare, train or measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    of_data = commands.add_parser("prepare", help="write the questions")
    of_data.set_defaults(run_command=prepare)
    of_data.add_argument("data", type=Path, help="an .npz")
    of_data.add_argument("--questions", type=int, default=3_000_000, help="for training")
    of_data.add_argument("--test", type=int, default=10_000)
    of_run = commands.add_parser("train", help="train, or go on")
    of_run.set_defaults(run_command=train)
    of_run.add_argument("--model", choices=MODELS, default="coda")
    of_run.add_argument("--minutes", type=float, default=3.0)
    of_run.add_argument("--seed", type=int, default=0)
    of_run.add_argument("--batch", type=int, default=BATCH)
    of_result = commands.add_parser("measure", help="the share of right answers")
    of_result.set_defaults(run_command=measure)
    for one in (of_run, of_result):
        one.add_argument("data", type=Path, help="an .npz of `prepare`")
        one.add_argument("run", type=Path, help="the folder of the run")
    given = parser.parse_args(arguments)
    given.run_command(given)


if __name__ == "__main__":
    main()
