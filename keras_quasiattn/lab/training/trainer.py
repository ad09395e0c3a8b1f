"""Train a task in a run folder, from the start or its last checkpoint, and end the run."""

import contextlib
import datetime
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

import keras_quasiattn
from keras_quasiattn.attention.coda.calibration import calibrate_attention, can_be_calibrated
from keras_quasiattn.errors import UserError
from keras_quasiattn.files import LOCK, MANIFEST, no_empty_folder, rewrite
from keras_quasiattn.lab.data.batches import untuned
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.training.attention_summaries import AttentionSummaries
from keras_quasiattn.lab.training.checkpoints import (
    CheckpointCallback,
    Checkpoints,
    Rows,
    assign,
    average,
    candidates,
    early_end,
    is_over,
    required_step,
)
from keras_quasiattn.lab.training.config import CONFIG
from keras_quasiattn.lab.training.optimizers import MakeOptimizer, described, made_optimizer
from keras_quasiattn.lab.training.progress import Progress, TrainingProgress
from keras_quasiattn.lab.training.replicas import (
    ReplicaLossScaleOptimizer,
    fit_among_workers,
    offset_replica_seeds,
    without_training,
)
from keras_quasiattn.lab.training.run_folder import LENGTH, RunFolder
from keras_quasiattn.lab.training.strategy import Workers, dtype_policy, make_strategy

# Config entry of a run that `finish` ended: the number of updates done.
_ENDED = "ended_at_step"
# Config entry of a run whose number of updates changed: the old number, and until which update it
# applied.
_EARLIER = "earlier_steps"
_LOOKED_AT = 32  # number of examples on which to measure the attention


def finish(path: str | Path, data_dir: str | Path = "data", *, progress: bool = True) -> RunFolder:
    """End a run before its last update: its best checkpoint so far becomes the finished model.

    The same `train` call as before still continues the run, from its last checkpoint.

    Raises:
        UserError: the folder holds no run, or one without a checkpoint, or is in use.

    ```python
    finish("runs/mlu-coda").load_model()
    ```
    """
    folder = RunFolder.open(path)
    with (
        Progress(progress) as shown,
        RunFolder.lock(path),
        dtype_policy(folder.config["options"]["policy"]),
        shown.busy("measuring the finished model"),
    ):
        if folder.finished:
            shown.say(f"{path} is finished already")
            return folder
        task = folder.task(data_dir)
        checkpoints = Checkpoints(folder.checkpoints, keep=1)
        last, _ = checkpoints.last_readable()
        rows = [row for row in folder.history() if row["step"] <= last]
        step = required_step(rows, task.options.training, folder.path)
        task.prepare()
        folder.write_assets(task)
        folder.write_history(rows)
        folder.write_config({**folder.config, _ENDED: last})
        model = task.build_model()
        compile_for(task, model)
        save_finished(task, model, checkpoints, rows, folder, shown)
        steps = task.training_settings.steps
        shown.say(f"{path}: ended at update {last} of {steps}; the model is that of {step}")
    return folder


def compile_for(task: Task, model: keras.Model, **options: Any) -> None:
    """Compile a model with the loss and the metrics of its task."""
    metrics = "weighted_metrics" if task.weighted_metrics else "metrics"
    model.compile(loss=task.loss(), **{metrics: task.metrics()}, **options)


def save_finished(
    task: Task,
    model: keras.Model,
    checkpoints: Checkpoints,
    rows: Rows,
    folder: RunFolder,
    shown: Progress,
    *,
    writes: bool = True,
) -> None:
    """Measure and save the selected or averaged weights; only one of several workers `writes`."""
    settings = task.training_settings
    selected = required_step(rows, settings, folder.path)
    steps = [row["step"] for row in reversed(candidates(rows)) if row["step"] <= selected]
    weights = average(checkpoints, steps[: settings.average_checkpoints])
    state, source = checkpoints.read(selected, "state"), checkpoints.file(selected)
    assign(model.trainable_variables, weights, source)
    assign(model.non_trainable_variables, state, source)
    finished = task.finished(model)
    if finished is not model:
        compile_for(task, finished)
    figures = finished.evaluate(task.validation_data(), return_dict=True, verbose=0)
    if not writes:
        return
    figures = {name: float(value) for name, value in figures.items()}
    if shown.shown:
        with shown.busy("measuring the baselines"):
            baselines = task.measure_baselines("validation")
        for line in task.doubts(figures, baselines, "validation"):
            shown.say(line)
    folder.write_metrics("validation", figures)
    folder.save_model(without_training(finished), task)


def is_final(folder: RunFolder, task: Task) -> bool:
    """Return whether the run is finished, so there is nothing to train."""
    same = folder.steps is None or folder.length == _asked(task)
    return folder.finished and _ENDED not in folder.config and same


def _asked(task: Task) -> dict[str, int | None]:
    """Return the requested length of the run, in the form of `RunFolder.length`."""
    options = task.options.options()
    return {name: options[name] for name in LENGTH}


def reopen(folder: RunFolder, task: Task) -> None:
    """Reopen a run, whose checkpoints stay, to train up to the requested number of updates."""
    asked = _asked(task)
    written = Checkpoints(folder.checkpoints, keep=1).steps()
    # The history may be ahead of the last checkpoint if the process was killed between the two.
    known = [row["step"] for row in folder.history()] if folder.finished else written
    reached = max(known, default=0)
    if asked != folder.length:
        task.prepare()  # the number of updates in some passes follows from the data
        steps, passes = task.training_settings.steps, task.options.training.passes
        given = f"steps is {steps}" if passes is None else f"passes is {passes}, {steps} updates"
        if steps < reached:
            raise UserError(
                f"training.{given}, but {folder.path} has trained {reached}: "
                f"it must be at least that, or end the run with: quasiattn finish {folder.path}"
            )
        every = task.training_settings.checkpoint_every
        last = max(written, default=0)
        if steps > last >= every + max((one for one in written if one % every == 0), default=0):
            raise UserError(
                f"training.{given} with a checkpoint every {every}, but those of {folder.path} "
                f"are after {', '.join(map(str, written))} updates: set training."
                f"{'passes' if passes is None else 'steps'} instead, or train in a new folder"
            )
    if folder.finished:
        # Check everything that may fail before the finished model is removed.
        task.prepare()
        folder.write_assets(task)
        # Remove the model first: a run with a model and a different config would be damaged.
        for name in (folder.model_file.name, MANIFEST, "metrics.json"):
            (folder.path / name).unlink(missing_ok=True)
    config: dict[str, Any] = {**folder.config}
    config.pop(_ENDED, None)
    if folder.length != asked:
        earlier = {"steps": folder.steps, "until_step": reached}
        options = {**config["task_config"]["options"], **asked}
        config[_EARLIER] = [*config.get(_EARLIER, []), earlier]
        config["task_config"] = {**config["task_config"], "options": options}
    if config != folder.config:
        folder.write_config(config)


def result_row(folder: RunFolder, split: str, figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return a results row: metrics of a split, with the run's command, seed, options and machine.

    `seconds` is the time of training and validation, including start-up and compilation;
    `validation` has the validation metrics of every checkpoint that could become the model;
    `assets` the hashes of files that the run learned from its data, such as the vocabulary;
    `commit` is the commit of the package's source, if it is a Git checkout. The row is
    JSON-serializable.
    """
    task_config = folder.config["task_config"]
    history, models = folder.finished_history(), list[str]()
    assets = folder.manifest()
    for name in (CONFIG, folder.model_file.name):
        assets.pop(name, None)
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        models = [line for line in lines if line.startswith("model name")]
    return {
        "task": folder.config["task"],
        **{name: task_config[name] for name in ("preset", "model", "seed")},
        "split": split,
        **figures,
        "steps": history[-1]["step"],
        "seconds": round(sum(row["seconds"] for row in history)),
        "parameters": folder.load_model().count_params(),
        "options": task_config["options"],
        **folder.config["options"],
        **folder.noted,
        "versions": folder.config["versions"],
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        # The model of the processor, if the system reports it.
        "processor": models[0].partition(":")[2].strip() if models else platform.processor(),
        "commit": source_commit(),
        "assets": {name: digest[:16] for name, digest in assets.items()},
        "validation": [
            {
                name.removeprefix("val_"): value
                for name, value in row.items()
                if name == "step" or name.startswith("val_")
            }
            for row in candidates(history)
        ],
        "date": datetime.date.today().isoformat(),
        "command": folder.config["command"],
    }


def source_commit() -> str | None:
    """Return the commit of the package's source, with "+" for changes; None outside Git."""
    source = Path(keras_quasiattn.__file__).parent

    def git(*words: str) -> str:
        command = ["git", "-C", str(source), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "_version.py")  # may be another checkout
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", ".") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def append_result(file: str | Path, row: Mapping[str, Any]) -> None:
    """Append a row to a JSON Lines file, atomically, even while other processes append to it.

    Raises:
        UserError: the file cannot be written.
    """

    def with_row(rows: str) -> str:
        end = "" if not rows or rows.endswith("\n") else "\n"  # an editor may have left none
        return f"{rows}{end}{json.dumps(dict(row))}\n"

    rewrite(Path(file), with_row)


def train(
    task: Task,
    path: str | Path,
    *,
    policy: str = "float32",
    strategy: str = "one",
    resume: bool = True,
    progress: bool = True,
    command: Sequence[str] = (),
    callbacks: Sequence[keras.callbacks.Callback] = (),
    optimizer: keras.optimizers.Optimizer | MakeOptimizer | None = None,
) -> RunFolder:
    """Train a task with `model.fit` and save the finished model in its run folder.

    After an interruption of any kind, the same call resumes from the last checkpoint. On a CPU with
    one replica, a resumed run ends with exactly the same weights, bit for bit, as an uninterrupted
    one, provided TensorFlow uses the same number of threads (it changes the order of its sums). A
    finished run is not trained again. With a different `training.steps`, not below the last
    checkpoint, the run continues to that number, and the schedule follows it.

    The finished model has the weights of the checkpoint that `training.select` names, or the mean
    of the trainable weights of the last checkpoints. Its loss and metrics on the validation data
    are written to `metrics.json`.

    Training sets Keras' global seed to the task's seed, and restores the global precision policy
    when it ends.

    Args:
        task: the task to train.
        path: the run folder: new, empty, or of a run that was started with the same arguments.
        policy: "float32", "mixed_float16" or "mixed_bfloat16". Defaults to "float32".
        strategy: "one", "mirrored" or "multi-worker"; see `strategy.make_strategy`. With several
            workers, each one makes this call with the same arguments and a run folder that all of
            them can reach. Defaults to "one".
        resume: whether to resume a run that the folder already holds; if False, the folder must be
            new or empty. Defaults to True.
        progress: whether to print progress: a line that changes in place on a terminal, and
            occasional lines elsewhere. Defaults to True.
        command: the command line, which the run folder records.
        callbacks: further Keras callbacks for `fit`, called before those that write checkpoints. A
            resumed run needs the same classes; checkpoints do not contain their state.
        optimizer: a function from the learning rate schedule of the task's settings to an
            optimizer, or an optimizer, of which only the configuration is used, including its
            learning rate. The run folder records it. None means Adam with Tensor2Tensor's settings
            (β₁ 0.9) with `training.beta_2`, `training.epsilon` and `training.clip_norm`.

    Raises:
        UserError: the folder holds something else, was started with other arguments, cannot be
            written or is in use by another process; the strategy does not support the task's
            settings; a callback or the optimizer is of the wrong type, or `training.clip_norm`
            differs from the optimizer's; the loss is no longer finite; another worker was lost.

    ```python
    task = tasks.get("mlu")(preset="demo", model="coda", seed=1, data_dir="data")
    folder = train(task, "runs/mlu-coda")
    folder.load_model()
    train(task, "runs/mlu-adamw", optimizer=lambda rate: keras.optimizers.AdamW(rate, beta_2=0.98))
    ```
    """
    with dtype_policy(policy):
        distribution = make_strategy(strategy, task.options.training)
        replicas = distribution.num_replicas_in_sync
        options = {"policy": policy, "strategy": strategy, "replicas": replicas}
        options |= described(task.options.training, optimizer, callbacks, replicas)
        workers = Workers(distribution)

        def begin() -> RunFolder | None:
            """Return the run to continue, or None for a new one, whose data are then prepared."""
            if workers.is_chief:
                held.enter_context(no_empty_folder(Path(path)))
                held.enter_context(_training_lock(path, task))
            if (resume or not workers.is_chief) and RunFolder.exists(path):
                folder = RunFolder.open(path)
                task.resume(folder.path)
                folder.require_same(task, options)
                if workers.is_chief and not is_final(folder, task):
                    reopen(folder, task)
                return folder
            RunFolder.prepare_empty(path)
            shown.say(f"{path}: preparing the data")
            with shown.busy("preparing the data"):
                task.prepare()
            shown.say(*(task.remarks() if shown.shown else ()))
            figures = ["last", "loss", *(metric.name for metric in task.metrics())]
            UserError.check("training.select", task.options.training.select, figures)
            return None

        def create() -> RunFolder:
            if not workers.is_chief:
                return RunFolder.open(path)
            return RunFolder.create(path, task, options=options, command=command)

        with (
            workers.lost_workers_as_user_error(),
            Progress(progress and workers.is_chief) as shown,
            contextlib.ExitStack() as held,
        ):
            folder = workers.chief_first(begin)
            if folder is not None and folder.finished:
                shown.say(f"{path} is finished: nothing to train")
            else:
                with shown.busy("preparing the data"):
                    workers.chief_first(lambda: _prepare(task, folder))
                keras.utils.set_random_seed(task.seed)
                with distribution.scope():
                    model = compiled_model(task, policy, optimizer)
                is_new = folder is None
                if folder is None:
                    # The options of a run cannot change, so those that the data, the model or its
                    # pretrained weights reject fail before the run is created.
                    task.initialize(model)
                    folder = workers.chief_first(create)
                    workers.chief_first(lambda: _prepare(task, folder))
                _fit(task, model, folder, distribution, workers, shown, callbacks, is_new)
            workers.broadcast_from_chief(0)  # barrier: no worker may leave early
    return folder


def _training_lock(path: str | Path, task: Task) -> contextlib.AbstractContextManager[None]:
    """Lock the run folder for training; a finished run is only cleaned up."""
    if not RunFolder.exists(path):
        RunFolder.prepare_empty(path)
    elif is_final(RunFolder.open(path), task):
        if (Path(path) / LOCK).exists():
            # A read-only folder stays as it is.
            with contextlib.suppress(UserError), RunFolder.lock(path):
                pass
        return contextlib.nullcontext()
    return RunFolder.lock(path)


def _prepare(task: Task, folder: RunFolder | None) -> None:
    """Prepare the data, and write to the run, if there is one, what the task learned from them."""
    task.prepare()
    if folder is not None:
        folder.write_assets(task)


def _fit(
    task: Task,
    model: keras.Model,
    folder: RunFolder,
    distribution: tf.distribute.Strategy,
    workers: Workers,
    shown: Progress,
    callbacks: Sequence[keras.callbacks.Callback],
    initialized: bool,
) -> None:
    """Resume from the last readable checkpoint, train and save the finished model."""
    settings = task.training_settings
    # Keep at least two, so that the run survives a damaged checkpoint.
    checkpoints = Checkpoints(folder.checkpoints, keep=max(settings.average_checkpoints, 2))
    last, damaged = checkpoints.last_readable()
    if last < settings.steps and last % settings.checkpoint_every:
        # A shorter run ended between two checkpoints of this one: train from the one before.
        last, damaged = checkpoints.last_readable(settings.checkpoint_every)
    for file in damaged:
        shown.say(f"{file} is damaged: continuing from the checkpoint before it")
    start = workers.broadcast_from_chief(last)
    if not start:
        if not initialized:
            task.initialize(model)
        if can_be_calibrated(model):
            calibrate_attention(model, next(iter(task.training_data(0)))[0])
    else:
        checkpoints.restore(start, model)
        shown.say(f"{folder.path}: continuing from update {start} of {settings.steps}")
    if distribution.num_replicas_in_sync > 1:
        offset_replica_seeds(model, distribution)
    if workers.several:
        fit_among_workers(model)
    saving = CheckpointCallback(folder, checkpoints, start, settings, writes=workers.is_chief)
    if not is_over(saving.rows, settings):
        shown.say(
            f"{folder.path}: at most {settings.steps:,} updates, validated every "
            f"{settings.checkpoint_every:,}"
        )
        validation_data = untuned(task.validation_data())
        unmeasured = [] if task.measures_training else [one.name for one in task.metrics()]
        # All callbacks share the logs of an epoch; this one drops what was not measured.
        drop = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: [logs.pop(name, None) for name in unmeasured]
        )
        # `saving` comes after the others, so that the checkpoint includes their changes.
        called = [drop, *task.callbacks(model), *callbacks, saving]
        if shown.shown:
            called.append(TrainingProgress(shown, settings, start))
        if workers.is_chief:
            # Examples of medium length; batches may be sorted by length.
            middle = max(int(validation_data.cardinality()), 1) // 2
            inputs = next(iter(validation_data.skip(middle)))[0]
            examples = keras.tree.map_structure(lambda x: x[:_LOOKED_AT], inputs)  # (≤ 32, ...)
            every = settings.checkpoint_every
            summaries = AttentionSummaries(
                folder.path, examples, steps_per_epoch=every, start=start
            )
            called.insert(0, summaries)
        model.fit(
            untuned(task.training_data(start)),
            initial_epoch=start // settings.checkpoint_every,
            epochs=settings.checkpoints,
            steps_per_epoch=settings.checkpoint_every,
            validation_data=validation_data,
            callbacks=called,
            shuffle=False,
            verbose=0,
        )
    if line := early_end(saving.rows, settings):
        shown.say(line)
    workers.broadcast_from_chief(0)  # barrier: the last checkpoint is written
    with shown.busy("measuring the finished model"):
        save_finished(task, model, checkpoints, saving.rows, folder, shown, writes=workers.is_chief)


def compiled_model(task: Task, policy: str, optimizer: Any = None) -> keras.Model:
    """Build and compile the model, and create all variables of its optimizer."""
    settings = task.training_settings
    model = task.build_model()
    replicas = tf.distribute.get_strategy().num_replicas_in_sync
    optimizer = made_optimizer(settings, optimizer, replicas, task.rate_factors(model))
    if policy == "mixed_float16":
        optimizer = ReplicaLossScaleOptimizer(optimizer)
    # Under a strategy an XLA-compiled train step cannot read another device's variables.
    one_device = not tf.distribute.has_strategy()
    jit_compile = settings.jit_compile and one_device
    compile_for(task, model, optimizer=optimizer, jit_compile=jit_compile)
    optimizer.build(model.trainable_variables)
    return model
