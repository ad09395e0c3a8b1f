"""Search a task's options: the values to try, and a training run for each trial."""

import contextlib
import io
import json
import math
import os
import shutil
import statistics
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import keras
import keras_tuner

from keras_quasiattn.attention.base import ATTENTIONS
from keras_quasiattn.errors import FileError, UserError
from keras_quasiattn.files import atomic_file, atomic_folder, begin, only_process, write
from keras_quasiattn.lab.tasks import Task
from keras_quasiattn.lab.tasks.attention_options import BASELINE
from keras_quasiattn.lab.tasks.encoder_place import ENCODER
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.lab.training.checkpoints import judged_by
from keras_quasiattn.lab.training.config import METHODS
from keras_quasiattn.lab.training.progress import Progress
from keras_quasiattn.tuning.attention_space import choices_of

_LENGTH = ("training.steps", "training.passes", "training.checkpoint_every")
_FOLD = ("data.validation_share", "data.validation_fold")
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
    """Train runs of a task with different option values, and keep the best one.

    A trial's score is the validation metric that `training.select` names (the loss for "last").
    With `folds` above 1 it is the mean over that many runs, each of which holds out another part of
    the training texts. The search never uses the test data. A trial whose options do not fit
    together fails without stopping the search.

    After an interruption, the same call resumes the search: finished trials stay, and unfinished
    ones continue from their last checkpoint. Several processes can share a search and its folder
    through KerasTuner's environment variables: a chief (`KERASTUNER_TUNER_ID=chief`) hands out the
    trials to tuners (any other name without "chief"), and all have the chief's
    `KERASTUNER_ORACLE_IP` and `KERASTUNER_ORACLE_PORT`. A restarted tuner must keep its name.

    Args:
        task: the task to train; it supplies all options that are not searched, and the seed of
            every run and of the search.
        space: values by dotted option name; see `search_space`.
        path: folder of the search; new, empty, or begun with the same arguments. Each trial is in
            `trial_ID`, such as `trial_03`, and the best run in `best`.
        method: "random" (the default), "bayesian" or "hyperband". Hyperband's longer trials
            continue the shorter ones with the same values, except under schedules that depend on
            the number of updates.
        trials: number of trials; Hyperband derives its own from `training.steps` /
            `training.checkpoint_every`. Defaults to 10.
        folds: parts of the cross-validation; 1 (the default) uses the task's own validation split.
        policy: precision, as for `training.train`. Defaults to "float32".
        progress: whether to print a line per trial, and occasional lines during a long trial.
            Defaults to True.
        command: the command line, for the records.

    Returns:
        The best run, a normal run folder. With `folds` above 1 it is a new run with the best values
        on the task's own split. None in a tuner with a chief.

    Raises:
        UserError: the method is unknown, a number is out of range, the folder holds something else,
            a value cannot be written as JSON, an option does not exist, or no trial succeeded.

    ```python
    task = tasks.get("classify")(preset="trec", model="bilstm_gated", seed=0, data_dir="data")
    search(task, search_space(task), "searches/trec", trials=20, folds=5)
    ```

    Source: Li et al. 2018, "Hyperband"; Snoek et al. 2012, "Practical Bayesian Optimization".
    """
    path, settings = Path(path), task.options.training
    UserError.check("method", method, METHODS)
    if trials < 1:
        raise UserError(f"the number of trials is {trials}: it must be at least 1")
    if folds < 1:
        raise UserError(f"the number of folds is {folds}: it must be at least 1")
    known = task.options.options()
    if folds > 1 and (known.get("data.validation") or "data.validation_fold" not in known):
        own = known.get("data.validation") or f"preset {task.preset}"
        raise UserError(
            f"the number of folds is {folds}: the validation data are those of {own}, so it must "
            "be 1"
        )
    if method == "hyperband" and settings.average_checkpoints > 1:
        raise UserError(
            f"training.average_checkpoints is {settings.average_checkpoints}: "
            f"Hyperband needs 1, because its trials are short"
        )
    for name in space.get("model.attention", ()):
        UserError.check("attention", name, ATTENTIONS)
    for option in space:
        whole = ".".join(option.split(".")[:2])  # an option, or the dictionary of an entry
        if option not in known and not isinstance(known.get(whole), Mapping):
            raise UserError.unknown("option", option, known)
        for taken, options in (
            (method == "hyperband" and "Hyperband", _LENGTH),
            (folds > 1 and "the cross-validation", _FOLD),
        ):
            if taken and option in options:
                raise UserError(
                    f"{option} cannot be searched, because {taken} sets it in every trial: leave "
                    "it out"
                )
    choices = {option: choices_of(option, values) for option, values in space.items()}
    hyperparameters = keras_tuner.HyperParameters()
    for option, given in choices.items():
        hyperparameters.Choice(option, list(given))
    task.prepare()  # fails before anything is written to the folder if the data is missing
    values = {option: list(given.values()) for option, given in choices.items()}
    _is_tuner_of_a_chief()  # rejects incomplete variables before anything is written
    arguments = {"space": values, "method": method, "trials": trials, "folds": folds}
    arguments |= {"policy": policy, "data": task.describe_data()}
    begin(path, "search.json", {"task": task.name, **task.config(), **arguments}, "search")
    name, direction = judged_by(settings)
    longest = {"max_epochs": task.training_settings.checkpoints}  # of Hyperband's trials
    kind = _ORACLES[method]
    oracle = type(kind.__name__, (_AtomicOracle, kind), {})(
        **(longest if method == "hyperband" else {"max_trials": trials}),
        objective=keras_tuner.Objective(name, direction),
        hyperparameters=hyperparameters,
        seed=task.seed + 1,  # KerasTuner treats 0 as no seed
        max_consecutive_failed_trials=sys.maxsize,
    )
    oracle.verbose = 0
    shared = all(os.environ.get(name) for name in _CLUSTER)
    alone = contextlib.nullcontext() if shared else only_process(path, "searching")
    with alone, Progress(progress) as shown:
        shown.say(*(task.remarks() if shown.shown else ()))
        with contextlib.redirect_stdout(io.StringIO()):  # KerasTuner prints what it reloads
            fixed = {"policy": policy, "progress": False, "command": command}
            tuner = _Tuner(oracle, path, task, choices, folds, shown, fixed)
        try:
            tuner.search()
        except keras_tuner.errors.FatalError as stopped:
            raise (stopped.__cause__ or stopped) from None
        if _is_tuner_of_a_chief():
            return None
        with shown.busy("the best run"):
            return tuner.best()


_ORACLES = {
    "hyperband": keras_tuner.oracles.HyperbandOracle,
    "random": keras_tuner.oracles.RandomSearchOracle,
    "bayesian": keras_tuner.oracles.BayesianOptimizationOracle,
}


class _AtomicOracle(keras_tuner.Oracle):
    """An oracle for which killing a process neither loses nor repeats a trial.

    KerasTuner 1.4.8 overwrites its files in place: if only one of its two files records the start
    of a trial, it counts the trial as done. After a restart it assigns an unfinished trial to the
    next tuner that asks, even if another tuner is still training it.
    """

    trials: dict[str, Any]
    _retry_queue: list[str]

    def save(self) -> None:
        write(Path(self._get_oracle_fname()), json.dumps(self.get_state()))

    def _save_trial(self, trial: Any) -> None:
        with atomic_file(Path(self._get_trial_dir(trial.trial_id)) / "trial.json") as temporary:
            trial.save(str(temporary))

    def set_state(self, state: dict[str, Any]) -> None:
        # A started trial that is missing from this state will be drawn again under the same id.
        begun = set(state["start_order"])
        self.trials = {name: trial for name, trial in self.trials.items() if name in begun}
        ended = set(state["end_order"])
        self._held = {
            tuner: name for tuner, name in state["ongoing_trials"].items() if name not in ended
        }
        super().set_state(state)

    def reload(self) -> None:
        super().reload()  # Keras' version puts all running trials into the retry queue
        self._retry_queue = [name for name in self._retry_queue if name not in self._held.values()]
        self.ongoing_trials = {tuner: self.trials[name] for tuner, name in self._held.items()}


class _Tuner(keras_tuner.engine.base_tuner.BaseTuner):
    """Train one run per trial, or one per fold."""

    def __init__(
        self,
        oracle: keras_tuner.Oracle,
        path: Path,
        task: Task,
        choices: Mapping[str, Mapping[Any, Any]],
        folds: int,
        shown: Progress,
        fixed: Mapping[str, Any],
    ) -> None:
        super().__init__(oracle, directory=str(path.parent), project_name=path.name)
        self._path, self._task, self._choices, self._folds = path, task, choices, folds
        self._shown, self._fixed = shown, fixed  # `fixed` are arguments of every training

    def run_trial(self, trial: Any) -> dict[str, float]:
        """Train one trial and return its score by metric name."""
        name = self.oracle.objective.name
        chosen = trial.hyperparameters.values
        figures = []
        keras.utils.clear_session()  # frees the graphs of earlier trials
        try:
            for fold in range(self._folds):
                task = self._with(chosen, fold if self._folds > 1 else None)
                run = self._run(trial.trial_id, fold)
                if "tuner/trial_id" in chosen and not RunFolder.exists(run):
                    shorter = self._run(chosen["tuner/trial_id"], fold)
                    _continue_from(shorter, run, task, self._fixed["command"])
                with self._shown.busy(f"trial {trial.trial_id}"):
                    folder = train(task, run, **self._fixed)
                figures.append(_validated(folder, name))
        except FileError:
            raise
        except UserError as error:
            self._say(trial, f"failed: {error}")
            raise keras_tuner.errors.FailedTrialError(str(error)) from None
        figure = statistics.mean(figures)
        if not math.isfinite(figure):  # it could not be ranked
            self._say(trial, reason := f"failed: its {name} is {figure}")
            raise keras_tuner.errors.FailedTrialError(reason)
        self._say(trial, f"{name} {figure:.4f}")
        return {name: figure}

    def _try_run_and_update_trial(self, trial: Any, *arguments: Any, **options: Any) -> None:
        """Run a trial and write its score; stop on an error its options did not cause."""
        try:
            self._run_and_update_trial(trial, *arguments, **options)
            trial.status = "COMPLETED"
        except keras_tuner.errors.FailedTrialError:
            trial.status, trial.message = "FAILED", traceback.format_exc()
        except Exception as error:
            raise keras_tuner.errors.FatalError from error

    def best(self) -> RunFolder:
        """Return the run in `best`: a copy of the best trial's run or, with folds, a new one."""
        trials = [trial for trial in self.oracle.trials.values() if trial.status == "COMPLETED"]
        if not trials:
            messages = [trial.message for trial in self.oracle.trials.values() if trial.message]
            reason = "none was started"
            if messages:
                reason = f"the last one: {messages[-1].strip().splitlines()[-1].partition(': ')[2]}"
            raise UserError(f"no trial of {self._path} succeeded; {reason}")
        best = self.oracle.get_best_trials(len(trials))
        # On a tie the first trial wins: a resumed search may have read the trials in another order.
        tied = (one for one in best if one.score == best[0].score)
        trial = min(tied, key=lambda one: one.trial_id)
        target = self._path / "best"
        if self._folds > 1:
            return train(self._with(trial.hyperparameters.values, None), target, **self._fixed)
        if not target.exists():
            with atomic_folder(target) as temporary:
                shutil.copytree(self._run(trial.trial_id, 0), temporary)
        return RunFolder.open(target, finished=True)

    def _with(self, chosen: Mapping[str, Any], fold: int | None) -> Task:
        """Return the task with a trial's values, on one fold or on the task's own split."""
        values = self._values(chosen)
        overrides = {**self._task.options.options(), **values}
        if "training.steps" in values and "training.passes" not in values:
            overrides["training.passes"] = None  # as where a user gives the updates
        if "tuner/epochs" in chosen:
            settings = self._task.training_settings
            steps = chosen["tuner/epochs"] * settings.checkpoint_every
            overrides["training.checkpoint_every"] = settings.checkpoint_every
            overrides["training.steps"] = min(steps, settings.steps)
            overrides["training.passes"] = None
        if fold is not None:
            data = self._task.options.data
            # A test split that is held out has the end of the texts' hashes; the folds share the
            # rest.
            for_test = 0.0 if data.get("test") else data.get("test_share", 0.0)
            share = (1 - for_test) / self._folds
            overrides |= {"data.validation_share": share, "data.validation_fold": fold}
        config = {**self._task.config(), "options": overrides}
        return type(self._task).from_config(config, self._task.data_dir)

    def _values(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return the option values that a trial's hyperparameters represent."""
        return {
            # Searches from earlier versions have 1 and 0 for True and False.
            name: choices.get(chosen[name], chosen[name])
            for name, choices in self._choices.items()
        }

    def _run(self, trial: str, fold: int) -> Path:
        return self._path / f"trial_{trial}" / ("run" if self._folds == 1 else f"fold_{fold}")

    def _say(self, trial: Any, text: str) -> None:
        chosen = self._values(trial.hyperparameters.values)
        values = ", ".join(f"{name} {value}" for name, value in chosen.items())
        self._shown.say(f"trial {trial.trial_id}: {text} ({values})")


def _validated(folder: RunFolder, name: str) -> float:
    """Return a metric of a finished run on the validation data."""
    measured = folder.metrics().get("validation", {})
    if name not in measured:
        raise UserError(
            f"{folder.path / 'metrics.json'} is missing or damaged: it has no validation {name}; "
            "restore it"
        )
    return float(measured[name])


def _continue_from(earlier: Path, run: Path, task: Task, command: Sequence[str]) -> None:
    """Start a run from the checkpoints of an earlier, shorter run with the same values."""
    if task.options.training.schedule in ("linear", "cosine"):
        return
    begun = RunFolder.open(earlier, finished=True)
    task.prepare()
    with atomic_folder(run) as temporary:
        folder = RunFolder.create(temporary, task, options=begun.config["options"], command=command)
        for name in task.assets():  # the files that the checkpoints belong to
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(earlier / name, temporary / name)
        folder.write_history(begun.history())
        shutil.copytree(earlier / "checkpoints", folder.checkpoints)


def _is_tuner_of_a_chief() -> bool:
    """Return whether another process, the chief, hands out the trials."""
    given = [name for name in _CLUSTER if os.environ.get(name)]
    if 0 < len(given) < len(_CLUSTER):
        missing = ", ".join(name for name in _CLUSTER if name not in given)
        raise UserError(
            f"{missing} is not set: a search by several processes needs {', '.join(_CLUSTER)}"
        )
    return len(given) == len(_CLUSTER) and "chief" not in os.environ[_CLUSTER[0]]


# The papers' values, where they give any: GA-Net (Xue et al. 2019, "Text Classification"); the
# differences of Conflict (Mitra 2019, section 5).
_CHOICES: Mapping[str, Sequence[Any]] = {
    "training.learning_rate": (1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2),
    "training.batch_size": (8, 16, 32, 64, 128),
    "model.gate_temperature": (0.5, 1.0, 1.5, 2.0),
    "model.gate_cost": (0.4e-5, 0.5e-5, 1e-5, 0.4e-4, 0.5e-4, 1e-4, 1e-3),
    "model.num_heads": (1, 2, 4, 8),
    "model.difference": ("absolute", "squared", "signed"),
}
# Those of BERT (Devlin et al. 2019, appendix A.3), the presets' 1e-4, and twice that. The rates
# above are for random weights.
_CHOICES_OF_ENCODERS: Mapping[str, Sequence[Any]] = {
    "training.learning_rate": (2e-5, 3e-5, 5e-5, 1e-4, 2e-4),
    "training.batch_size": (16, 32),
}


def search_space(task: Task, wanted: Mapping[str, str] | None = None) -> dict[str, list[Any]]:
    """Return the options to search, each with a list of values of its type.

    Args:
        task: the task whose options to search.
        wanted: comma-separated values by dotted option name; the search uses only these options.
            None (the default) uses the options of the task's model for which a paper or the model's
            attention proposes values. The options of the attention are entries of
            `model.attention_options`, such as "model.attention_options.alpha".

    Raises:
        UserError: the task does not have an option, a value has the wrong type, an option has fewer
            than two values, or there is nothing to search.

    Example:
    >>> from keras_quasiattn.lab import tasks
    >>> task = tasks.get("mlu")(preset="demo", model="coda", seed=0, data_dir="data")
    >>> search_space(task, {"model.num_layers": "1,2"})
    {'model.num_layers': [1, 2]}
    """
    options = task.options.options()
    if wanted is None:
        is_encoder = task.model == ENCODER
        choices = _CHOICES_OF_ENCODERS if is_encoder else _CHOICES
        space = {option: list(values) for option, values in choices.items() if option in options}
        if task.counts_tokens:  # these batch sizes are numbers of texts
            space.pop("training.batch_size")
        attention = options.get("model.attention")
        # The softmax of an encoder is its own, without options.
        if attention in ATTENTIONS and not (is_encoder and attention == BASELINE):
            proposed = ATTENTIONS[attention].options_class.search_space.items()
            space |= {f"model.attention_options.{name}": list(values) for name, values in proposed}
    else:
        space = {option: _values(task, option, text) for option, text in wanted.items()}
    if not space:
        raise UserError(
            f"there is nothing to search: task {task.name} has none of {', '.join(_CHOICES)}"
        )
    return space


def _values(task: Task, option: str, text: str) -> list[Any]:
    values = []
    for part in text.split(","):
        try:
            values.append(task.options.with_overrides({option: part.strip()})[option])
        except UserError as error:
            raise UserError(f"--try {option}={text}: {error}") from None
    if len(choices_of(option, values)) < 2:
        raise UserError(f"--try {option}={text}: give at least two values, separated by commas")
    return values
