"""KerasTuner's oracles, changed so that killing a process neither loses nor repeats a trial.

KerasTuner 1.4.8 overwrites its files in place. If only one of its two files records the start of a
trial, it counts the trial as done. After a restart it assigns an unfinished trial to the next tuner
that asks, even if another tuner is still training it.
"""

import json
from pathlib import Path
from typing import Any

import keras_tuner

from keras_quasiattn.files import atomic_file

_ORACLES = {
    "hyperband": keras_tuner.oracles.HyperbandOracle,
    "random": keras_tuner.oracles.RandomSearchOracle,
    "bayesian": keras_tuner.oracles.BayesianOptimizationOracle,
}


class _AtomicOracle(keras_tuner.Oracle):
    """An oracle that writes its files atomically and leaves running trials with their tuners."""

    trials: dict[str, Any]
    _retry_queue: list[str]

    def save(self) -> None:
        with atomic_file(Path(self._get_oracle_fname())) as temporary:
            temporary.write_text(json.dumps(self.get_state()), encoding="utf-8")

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


def make_oracle(
    method: str, *, trials: int, checkpoints: int, **arguments: Any
) -> keras_tuner.Oracle:
    """Make the oracle of a search method, with arguments such as `objective` and `seed`.

    Hyperband runs as many trials as its brackets need; its longest has `checkpoints` checkpoints.
    """
    kind = _ORACLES[method]
    own = {"max_epochs": checkpoints} if method == "hyperband" else {"max_trials": trials}
    return type(kind.__name__, (_AtomicOracle, kind), {})(**own, **arguments)
