"""The validation metrics, by which checkpoints are chosen."""

import numpy as np
import pytest
import tiny_texts

from keras_quasiattn.lab.training.finishing import compile_for


def test_texts_that_filled_the_last_batch_counted_twice(texts_data):
    task = tiny_texts.make(texts_data, "bilstm_soft", training__batch_size=200)
    task.prepare()
    model = task.build_model()
    compile_for(task, model)
    figures = model.evaluate(task.validation_data(), return_dict=True, verbose=0)
    texts = task._data.splits["validation"]
    assert 0 < len(texts) < 100
    answers = task.predict(model, [text.decode() for text in texts.texts])
    right = [
        dict(zip(answer["classes"], answer["probabilities"], strict=True))[task._classes[label]]
        for answer, label in zip(answers, texts.labels, strict=True)
    ]
    assert figures["loss"] == pytest.approx(-np.mean(np.log(right)), rel=1e-5)
    assert figures["accuracy"] == pytest.approx(task.evaluate(model, "validation")["accuracy"])
