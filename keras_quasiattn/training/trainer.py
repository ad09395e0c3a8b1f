"""Training a task in a run folder, to the end or from where it stopped."""

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks import Task
from keras_quasiattn.training.attention_summaries import AttentionSummaries
from keras_quasiattn.training.averaging import average
from keras_quasiattn.training.checkpoints import Checkpoints, assign
from keras_quasiattn.training.period_end import PeriodEnd
from keras_quasiattn.training.precision import dtype_policy
from keras_quasiattn.training.replicas import (
    ReplicaLossScaleOptimizer,
    fit_among_workers,
    give_each_replica_its_noise,
)
from keras_quasiattn.training.run_folder import LOCK, RunFolder
from keras_quasiattn.training.schedules import WarmupSchedule
from keras_quasiattn.training.selection import check_selection, is_over, selected_step
from keras_quasiattn.training.strategy import make_strategy
from keras_quasiattn.training.workers import Workers

_LOOKED_AT = 32  # examples that the attention is followed on


def train(
    task: Task,
    path: str | Path,
    *,
    policy: str = "float32",
    strategy: str = "one",
    resume: bool = True,
    progress: bool = True,
    command: Sequence[str] = (),
) -> RunFolder:
    """Train a task with `model.fit` until its model is finished.

    A second start with the same arguments goes on from the last checkpoint, whenever and however the first
    one ended. On a CPU with one replica the finished weights are, bit for bit, those of a run that was never
    stopped, as long as TensorFlow has the same number of threads (that number changes the order of its
    sums). On a finished run it does nothing. The optimizer is Adam with Tensor2Tensor's β 0.9 and 0.997 and
    ε 1e-9. The finished model is the checkpoint that `training.select` names, or has the mean of the last
    checkpoints' trainable weights; its loss and metrics on the validation data go to `metrics.json`.

    Keras' global seed is set to the task's; the global precision policy is as before when training ends.

    Args:
        task: what to train.
        path: the run folder; new, empty, or begun with the same arguments.
        policy: "float32", "mixed_float16" or "mixed_bfloat16".
        strategy: "one", "mirrored" or "multi-worker"; see `strategy.make_strategy`. Of several workers each calls
            this with the same arguments and a run folder that all of them reach.
        resume: whether a run that was begun in the folder may go on; otherwise the folder must be new.
        progress: whether to show Keras' progress bar and to say what is resumed or already finished.
        command: the command line, for the record.

    Returns:
        The finished run.

    Raises:
        UserError: the folder holds something else, was begun with other arguments or cannot be written; the
            task's settings do not suit the strategy; the loss is no longer finite; another worker was lost.

    ```python
    task = tasks.get("mlu")(preset="demo", model="coda", seed=1, data_dir="data")
    folder = train(task, "runs/mlu-coda")
    folder.load_model()
    ```
    """
    with dtype_policy(policy):
        distribution = make_strategy(strategy, task.options.training)
        options = {
            "policy": policy,
            "strategy": strategy,
            "replicas": distribution.num_replicas_in_sync,
        }
        workers = Workers(distribution)
        progress = progress and workers.is_chief

        def begin() -> RunFolder:
            if workers.is_chief:
                held.enter_context(_alone(path))
            if (resume or not workers.is_chief) and RunFolder.exists(path):
                folder = RunFolder.open(path)
                folder.require_same(task, options)
                return folder
            RunFolder.make_room(path)
            _say(progress, f"{path}: preparing the data in {task.data_dir}")
            # A run keeps its options; those that the data or the model refuse must not become a run.
            task.prepare()
            task.build_model()
            check_selection(task)
            return RunFolder.create(path, task, options=options, command=command)

        with workers.naming_lost_workers(), contextlib.ExitStack() as held:
            folder = workers.chief_first(begin)
            if folder.finished:
                _say(progress, f"{path} is finished: nothing to train")
            else:
                _fit(task, folder, distribution, workers, policy, progress)
            workers.from_chief(0)  # none leaves before the last
    return folder


def _alone(path: str | Path) -> contextlib.AbstractContextManager[None]:
    """The lock of the run folder; a finished run needs none, but loses what a process killed at its end left."""
    if not RunFolder.exists(path):
        RunFolder.make_room(path)
    elif RunFolder.open(path).finished:
        if (Path(path) / LOCK).exists():
            # It may lie where nothing can be written.
            with contextlib.suppress(UserError), RunFolder.lock(path):
                pass
        return contextlib.nullcontext()
    return RunFolder.lock(path)


def _fit(
    task: Task,
    folder: RunFolder,
    distribution: tf.distribute.Strategy,
    workers: Workers,
    policy: str,
    progress: bool,
) -> None:
    """Train from the last checkpoint to the finished model."""
    settings = task.options.training

    def prepare() -> None:
        task.prepare()
        folder.write_assets(task)

    workers.chief_first(prepare)
    keras.utils.set_random_seed(task.seed)
    with distribution.scope():
        model = _compiled(task, policy)
    # One more than the last at least, so that a damaged file does not cost the run.
    checkpoints = Checkpoints(folder.checkpoints, keep=max(settings.average_checkpoints, 2))
    last, damaged = checkpoints.last_whole()
    for file in damaged:
        _say(progress, f"{file} is damaged: going on from the checkpoint before it")
    start = workers.from_chief(last)
    if start:
        checkpoints.restore(start, model, model.optimizer)
        _say(progress, f"{folder.path}: going on from step {start} of {settings.steps}")
    if distribution.num_replicas_in_sync > 1:
        give_each_replica_its_noise(model, distribution)
    if workers.several:
        fit_among_workers(model)
    period_end = PeriodEnd(folder, checkpoints, start, settings, writes=workers.is_chief)
    if not is_over(period_end.rows, settings):
        validation_data = task.validation_data()
        callbacks: list[keras.callbacks.Callback] = [period_end]
        if workers.is_chief:
            examples = _middle_batch(validation_data)
            every = settings.checkpoint_every
            # Before the checkpoint, which then has all that a measurement may have drawn.
            callbacks.insert(
                0, AttentionSummaries(folder.path, examples, steps_per_epoch=every, start=start)
            )
        model.fit(
            task.training_data(start),
            initial_epoch=start // settings.checkpoint_every,
            epochs=settings.periods,
            steps_per_epoch=settings.checkpoint_every,
            validation_data=validation_data,
            callbacks=callbacks,
            shuffle=False,
            verbose=_verbosity(progress),
        )
    workers.from_chief(0)  # the last checkpoint is written
    _finish(task, model, checkpoints, period_end)


def _compiled(task: Task, policy: str) -> keras.Model:
    """A model ready to train, with every variable of its optimizer made."""
    settings = task.options.training
    model = task.build_model()
    optimizer = keras.optimizers.Adam(
        WarmupSchedule.from_settings(settings),
        beta_1=0.9,
        beta_2=0.997,
        epsilon=1e-9,
        global_clipnorm=settings.clip_norm,
    )
    if policy == "mixed_float16":
        optimizer = ReplicaLossScaleOptimizer(optimizer)
    model.compile(
        optimizer, loss=task.loss(), metrics=task.metrics(), jit_compile=settings.jit_compile
    )
    optimizer.build(model.trainable_variables)
    return model


def _middle_batch(data: tf.data.Dataset) -> Any:
    """What the model is called with for some examples of middling length: batches may lie in order of length."""
    batches = max(int(data.cardinality()), 1)
    inputs = next(iter(data.skip(batches // 2)))[0]
    return keras.tree.map_structure(lambda x: x[:_LOOKED_AT], inputs)


def _finish(
    task: Task, model: keras.Model, checkpoints: Checkpoints, period_end: PeriodEnd
) -> None:
    """Average, measure and save; the model's file comes last, since it marks the run as finished."""
    settings, folder = task.options.training, period_end.folder
    selected = selected_step(period_end.rows, settings)
    steps = range(selected, 0, -settings.checkpoint_every)[: settings.average_checkpoints]
    weights = average(checkpoints, steps)
    state, source = checkpoints.read(selected, "state"), checkpoints.file(selected)
    assign(model.trainable_variables, weights, source)
    assign(model.non_trainable_variables, state, source)
    figures = model.evaluate(task.validation_data(), return_dict=True, verbose=0)
    if not period_end.writes:
        return
    folder.write_metrics("validation", {name: float(value) for name, value in figures.items()})
    # A new model, since the trained one would take its optimizer, loss and strategy along into the file.
    finished = task.build_model()
    assign(finished.trainable_variables, weights, source)
    assign(finished.non_trainable_variables, state, source)
    folder.save_model(finished, task)


def _verbosity(progress: bool) -> int:
    """Keras' bar on a terminal, a line a period in a log file."""
    if not progress:
        return 0
    return 1 if sys.stdout.isatty() else 2


def _say(progress: bool, line: str) -> None:
    if progress:
        print(line, flush=True)
