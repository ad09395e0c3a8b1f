"""Search of a task's options: trials that are training runs, by one process or by several."""

import contextlib
import io
import json
import os
import shutil
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import keras_tuner

from keras_quasiattn.errors import UserError
from keras_quasiattn.tasks import Task
from keras_quasiattn.training import RunFolder, train
from keras_quasiattn.training.files import appearing, write_json
from keras_quasiattn.training.selection import judged_by
from keras_quasiattn.tuning.oracles import METHODS, make_oracle

_CLUSTER = ("KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT")


def search(
    task: Task,
    space: Mapping[str, Sequence[Any]],
    path: str | Path,
    *,
    method: str = "random",
    trials: int = 10,
    folds: int = 1,
    policy: str = "float32",
    progress: bool = True,
    command: Sequence[str] = (),
) -> RunFolder | None:
    """Train runs of a task with different values of its options, and keep the best one.

    A trial is judged by the figure of the validation data that `training.select` names (the loss for "last"), with
    `folds` above 1 by its mean over as many runs, each of which holds out another part of the training texts. The test
    data are never looked at. A trial whose options do not go together fails alone.

    Started again after an interruption, the same search goes on: finished trials stay, those under way go on from
    their last checkpoint. Several processes share one search and one folder where KerasTuner's variables say so: a
    chief (`KERASTUNER_TUNER_ID=chief`), which hands out the trials, and tuners (any other name without "chief"), all with
    `KERASTUNER_ORACLE_IP` and `KERASTUNER_ORACLE_PORT` of the chief. A tuner that is started again keeps its name.

    Args:
        task: what to train; its options hold for all that is not searched, its seed for every run and for the draws.
        space: values by dotted option name; see `spaces.search_space`.
        path: folder of the search; new, empty, or begun with the same arguments. Trial 3 lies in `trial_03`, the best
            run in `best`.
        method: "random", "bayesian", or "hyperband", whose longer trials go on where the shorter ones of the same
            values ended (but for schedules that depend on the number of steps).
        trials: number of trials; Hyperband has its own, by `training.steps` / `training.checkpoint_every`.
        folds: parts of the cross-validation; 1 is the validation split that the task has.
        policy: precision, as for `training.train`.
        progress: whether to print a line a trial.
        command: the command line, for the records.

    Returns:
        The best run, a folder like any other; with `folds` a further one, trained with the best values on the task's own
        split. None in a tuner that has a chief.

    Raises:
        UserError: an unknown method, bad numbers, a folder that holds something else, or no trial that succeeded.

    ```python
    task = tasks.get("classify")(preset="trec", model="bilstm_gated", seed=0, data_dir="data")
    search(task, search_space(task), "searches/trec", trials=20, folds=5)
    ```

    Source: Li et al. 2018, "Hyperband"; Snoek et al. 2012, "Practical Bayesian Optimization".
    """
    path, settings = Path(path), task.options.training
    if method not in METHODS:
        raise UserError.unknown("method", method, METHODS)
    if trials < 1:
        raise UserError(f"the number of trials is {trials}: it must be at least 1")
    if folds < 1:
        raise UserError(f"the number of folds is {folds}: it must be at least 1")
    if folds > 1 and "data.validation_fold" not in task.options.options():
        raise UserError(
            f"the number of folds is {folds}: the data of preset {task.preset} have a validation split, so 1"
        )
    if method == "hyperband" and settings.average_checkpoints > 1:
        raise UserError(
            f"training.average_checkpoints is {settings.average_checkpoints}: Hyperband needs 1, for its short trials"
        )
    task.prepare()  # before the folder is bound to data that cannot be had
    _require_same(
        path, task, {"space": dict(space), "method": method, "trials": trials, "folds": folds}
    )
    name, direction = judged_by(settings)
    hyperparameters = keras_tuner.HyperParameters()
    for option, values in space.items():
        hyperparameters.Choice(option, list(values))
    oracle = make_oracle(
        method,
        trials=trials,
        periods=settings.periods,
        objective=keras_tuner.Objective(name, direction),
        hyperparameters=hyperparameters,
        seed=task.seed + 1,  # KerasTuner takes 0 for none
        max_consecutive_failed_trials=sys.maxsize,
    )
    oracle.verbose = 0
    with contextlib.redirect_stdout(io.StringIO()):  # it says what it reloads
        tuner = _Tuner(oracle, path, task, list(space), folds, policy, progress, command)
    tuner.search()
    if _is_tuner_of_a_chief():
        return None
    return tuner.best()


class _Tuner(keras_tuner.engine.base_tuner.BaseTuner):
    """Trains a trial as a run, or as one a fold."""

    def __init__(
        self,
        oracle: keras_tuner.Oracle,
        path: Path,
        task: Task,
        options: Sequence[str],
        folds: int,
        policy: str,
        progress: bool,
        command: Sequence[str],
    ) -> None:
        super().__init__(oracle, directory=str(path.parent), project_name=path.name)
        self._path, self._task, self._options, self._folds = path, task, options, folds
        self._policy, self._progress, self._command = policy, progress, command

    def run_trial(self, trial: Any) -> dict[str, float]:
        """The figure that the trial is judged by.

        Raises:
            FailedTrialError: its options do not go together, or its loss left the numbers.
        """
        name = self.oracle.objective.name
        chosen = trial.hyperparameters.values
        figures = []
        keras.utils.clear_session()  # the graphs of earlier trials
        try:
            for fold in range(self._folds):
                task = self._with(chosen, fold if self._folds > 1 else None)
                run = self._run(trial.trial_id, fold)
                if "tuner/trial_id" in chosen and not RunFolder.exists(run):
                    _go_on_from(self._run(chosen["tuner/trial_id"], fold), run, task, self._command)
                folder = train(
                    task, run, policy=self._policy, progress=False, command=self._command
                )
                figures.append(float(folder.metrics()["validation"][name]))
        except UserError as error:
            self._say(trial, f"failed: {error}")
            raise keras_tuner.errors.FailedTrialError(str(error)) from None
        figure = statistics.mean(figures)
        self._say(trial, f"{name} {figure:.4f}")
        return {name: figure}

    def best(self) -> RunFolder:
        """The best trial's run, or one with its values on the task's own split, in the folder `best`."""
        trials = [trial for trial in self.oracle.trials.values() if trial.status == "COMPLETED"]
        if not trials:
            messages = [trial.message for trial in self.oracle.trials.values() if trial.message]
            reason = (
                messages[-1].strip().splitlines()[-1].partition(": ")[2]
                if messages
                else "none was begun"
            )
            raise UserError(f"no trial of {self._path} succeeded; the last one: {reason}")
        best = self.oracle.get_best_trials(len(trials))
        # Of equals the first, whatever the order in which a search that goes on has read them.
        trial = min(
            (one for one in best if one.score == best[0].score), key=lambda one: one.trial_id
        )
        target = self._path / "best"
        if self._folds > 1:
            task = self._with(trial.hyperparameters.values, None)
            return train(task, target, policy=self._policy, progress=False, command=self._command)
        if not target.exists():
            with appearing(target) as temporary:
                shutil.copytree(self._run(trial.trial_id, 0), temporary)
        return RunFolder.open(target, finished=True)

    def _with(self, chosen: Mapping[str, Any], fold: int | None) -> Task:
        """The task with a trial's values, on one fold or on its own split."""
        overrides = {
            **self._task.options.options(),
            **{name: chosen[name] for name in self._options},
        }
        if "tuner/epochs" in chosen:
            overrides["training.steps"] = (
                chosen["tuner/epochs"] * overrides["training.checkpoint_every"]
            )
        if fold is not None:
            overrides.update(
                {"data.validation_share": 1 / self._folds, "data.validation_fold": fold}
            )
        return type(self._task).from_config(
            {**self._task.config(), "options": overrides}, self._task.data_dir
        )

    def _run(self, trial: str, fold: int) -> Path:
        return self._path / f"trial_{trial}" / ("run" if self._folds == 1 else f"fold_{fold}")

    def _say(self, trial: Any, text: str) -> None:
        if self._progress:
            values = ", ".join(
                f"{name} {trial.hyperparameters.values[name]}" for name in self._options
            )
            print(f"trial {trial.trial_id}: {text} ({values})", flush=True)


def _go_on_from(earlier: Path, run: Path, task: Task, command: Sequence[str]) -> None:
    """Begin a run with what an earlier, shorter one of the same values has learned."""
    if task.options.training.schedule in ("linear", "cosine"):
        return
    options = RunFolder.open(earlier, finished=True).config["options"]
    with appearing(run) as temporary:
        folder = RunFolder.create(temporary, task, options=options, command=command)
        folder.write_history(RunFolder.open(earlier).history())
        shutil.copytree(earlier / "checkpoints", folder.checkpoints)


def _is_tuner_of_a_chief() -> bool:
    """Whether another process hands out the trials."""
    given = [name for name in _CLUSTER if os.environ.get(name)]
    if given and len(given) < len(_CLUSTER) and given != _CLUSTER[:1]:
        missing = ", ".join(name for name in _CLUSTER if name not in given)
        raise UserError(
            f"{missing} is not set: a search by several processes needs {', '.join(_CLUSTER)}"
        )
    return len(given) == len(_CLUSTER) and "chief" not in os.environ[_CLUSTER[0]]


def _require_same(path: Path, task: Task, arguments: Mapping[str, Any]) -> None:
    """Note what is searched in a new folder, or see that an old one holds the same search."""
    _is_tuner_of_a_chief()  # before anything is written
    file = path / "search.json"
    asked = json.loads(json.dumps({"task": task.name, **task.config(), **arguments}))
    if not file.exists():
        if path.exists() and any(not entry.name.startswith(".") for entry in path.iterdir()):
            raise UserError(f"{path} holds other files and no search: name a new folder")
        write_json(file, asked)
    try:
        begun = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        raise UserError(f"{file} is damaged: it is not JSON") from None
    differing = [name for name in asked if begun.get(name) != asked[name]]
    if differing:
        raise UserError(
            f"{path} was begun with another {', '.join(differing)}: give the same again or name a new folder"
        )
