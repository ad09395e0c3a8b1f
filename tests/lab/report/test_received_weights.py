"""What `quasiattn show` prints for models whose answers have no weight per token."""

import pytest
import tiny_texts
from tiny import built

from keras_quasiattn.lab.report.write_report import with_received
from keras_quasiattn.report import token_table

TEXT = "who ran to the old city?"


@pytest.mark.parametrize("model", ["transformer", "transformer_coda", "bilstm_none"])
def test_a_transformer_was_shown_as_bare_tokens(model, texts_data):
    task, network = built(tiny_texts.make(texts_data, model))
    (answer,) = task.predict(network, [TEXT])
    told = with_received(task, network, answer)
    table = token_table(told)
    if model == "bilstm_none":  # no layer attends
        assert told == answer and "weights" not in told
        return
    assert told["tokens"] == answer["tokens"] and len(told["weights"]) == len(answer["tokens"])
    assert "(weights received in encoder_block_0/attention, mean of 2 heads)" in table
    assert "#" * 30 in table
    if model == "transformer":  # every row of a softmax sums to 1, and so does the mean of the rows
        assert sum(told["weights"]) == pytest.approx(1, abs=1e-5)
    (empty,) = task.predict(network, [""])
    assert token_table(with_received(task, network, empty)).count("\n") == 0


def test_an_answer_with_weights_keeps_them(texts_data):
    task = tiny_texts.make(texts_data)
    answer = {"input": TEXT, "tokens": ["who"], "weights": [1.0]}
    assert with_received(task, None, answer) == answer
