import numpy as np
import pytest

from keras_quasiattn.metrics import SpanAccuracy, SpanF1


def logits(*spans: tuple[int, int], length: int = 6) -> np.ndarray:
    made = np.zeros((len(spans), length, 2), "float32")
    for row, span in enumerate(spans):
        made[row, span[0], 0] = made[row, span[1], 1] = 9.0
    return made


def test_spans_over_batches_without_what_does_not_count():
    accuracy, f1 = SpanAccuracy(4), SpanF1(4)
    batches = [
        ([[1, 2, 1], [0, 3, 1]], logits((1, 2), (2, 4))),
        ([[5, 5, 1], [0, 0, 0]], logits((0, 1), (5, 5))),
    ]
    for target, answer in batches:
        accuracy.update_state(np.array(target), answer)
        f1.update_state(np.array(target), answer)
    assert float(accuracy.result()) == pytest.approx(1 / 3)
    # Two tokens of 4 and of 3 in common, and none.
    assert float(f1.result()) == pytest.approx((1 + 4 / 7) / 3)
    f1.reset_state()
    assert float(f1.result()) == 0
    assert SpanF1.from_config(f1.get_config()).longest == 4
    with pytest.raises(ValueError, match="sample_weight"):
        f1.update_state(np.array(batches[0][0]), batches[0][1], sample_weight=1.0)
