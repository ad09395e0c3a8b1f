import math

import keras
import pytest

from keras_quasiattn.lab.tasks import TrainingSettings
from keras_quasiattn.lab.training.optimizers import WarmupSchedule, made_optimizer


def rate(schedule, update):
    return float(schedule(update - 1))


@pytest.mark.parametrize(
    ("constant", "warmup", "peak"),
    [(2 * 512**-0.5, 8000, 9.9e-4), (0.1, 16000, 7.9e-4), (2 * 128**-0.5, 8000, 2.0e-3)],
    ids=["transformer_base", "transformer_base_single_gpu", "transformer_tiny"],
)
def test_inverse_square_root_is_that_of_tensor2tensor(constant, warmup, peak):
    schedule = WarmupSchedule(constant * warmup**-0.5, warmup, "inverse_square_root", 100_000)
    assert rate(schedule, warmup) == pytest.approx(peak, rel=2e-2)
    for update in (1, 2000, warmup, warmup + 1, 50_000):
        expected = constant * min(1, update / warmup) * max(update, warmup) ** -0.5
        assert rate(schedule, update) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("decay", "middle", "end"), [("linear", 0.5, 0.0), ("cosine", 0.5, 0.0), ("constant", 1.0, 1.0)]
)
def test_other_forms(decay, middle, end):
    schedule = WarmupSchedule(1.0, 10, decay, 110)
    assert [rate(schedule, update) for update in (1, 5, 10)] == pytest.approx([0.1, 0.5, 1.0])
    assert rate(schedule, 60) == pytest.approx(middle)
    assert [rate(schedule, update) for update in (110, 500)] == pytest.approx([end, end], abs=1e-6)


def test_cosine_is_a_cosine():
    assert rate(WarmupSchedule(2.0, 0, "cosine", 101), 26) == pytest.approx(
        1 + math.cos(math.pi / 4)
    )


def test_no_warmup_starts_at_the_peak():
    assert rate(WarmupSchedule(0.5, 0, "inverse_square_root", 10), 1) == 0.5


def test_config_round_trip():
    schedule = WarmupSchedule(0.25, 7, "cosine", 90)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
    assert type(again) is WarmupSchedule
    assert again.get_config() == {"peak": 0.25, "warmup_steps": 7, "decay": "cosine", "steps": 90}


def test_settings_reach_the_schedule():
    settings = TrainingSettings(
        steps=90,
        batch_size=1,
        learning_rate=0.25,
        warmup_steps=7,
        checkpoint_every=9,
        schedule="linear",
    )
    optimizer = made_optimizer(settings, None, replicas=1)
    assert optimizer.get_config()["learning_rate"]["config"] == {
        "peak": 0.25,
        "warmup_steps": 7,
        "decay": "linear",
        "steps": 90,
    }


def test_unknown_form_is_named():
    with pytest.raises(ValueError, match=r"decay must be one of .*'linear'.*, got 'step'"):
        WarmupSchedule(1.0, 1, "step", 10)
