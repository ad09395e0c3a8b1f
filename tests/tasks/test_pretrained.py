"""A pretrained encoder, if QUASIATTN_ENCODER names its folder.

docs/guides/encoders.md has the commands that fetch one.
"""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest
import tiny_encoder
from tiny import prepared

from keras_quasiattn.lab.tasks.encoder import load_encoder

FOLDER = Path(os.environ.get("QUASIATTN_ENCODER", "encoder"))
SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
PARAPHRASES = [
    ("How do I learn French?", "What is the best way to learn French?"),
    ("The film was a complete waste of time.", "I did not enjoy this movie at all."),
    ("Stocks fell as oil became more expensive.", "Rising oil prices hurt the share market."),
    ("Who wrote Hamlet?", "Which author is Hamlet by?"),
]

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not FOLDER.is_dir(), reason="QUASIATTN_ENCODER names no folder"),
]


@pytest.fixture(scope="module")
def task(texts_data):
    pytest.importorskip("keras_hub")
    pytest.importorskip("safetensors")
    made = prepared(tiny_encoder.make(texts_data, "classify", FOLDER, data__max_length=128))
    return made


def test_the_hash_of_the_weights_is_recorded(task):
    encoder, vocabulary, _ = load_encoder(str(FOLDER))
    assert encoder.sha256 == hashlib.sha256((FOLDER / "model.safetensors").read_bytes()).hexdigest()
    if encoder.sha256 == SHA256:
        assert (encoder.family, encoder.config["num_layers"]) == ("BertBackbone", 6)
        assert len(vocabulary) == 30_522


def test_states_are_those_of_keras_hub_and_tell_what_means_the_same(task):
    import keras_hub

    model = task.build_model()
    task.initialize(model)
    texts = [text for pair in PARAPHRASES for text in pair]
    ids = task.tokenize(texts).inputs["ids"]
    tokenizer = keras_hub.models.Tokenizer.from_preset(str(FOLDER))
    pack = keras_hub.layers.MultiSegmentPacker(
        *(ids.shape[1], tokenizer.cls_token_id, tokenizer.sep_token_id),
        pad_value=tokenizer.pad_token_id,
    )
    theirs, segments = pack(tokenizer(texts))
    np.testing.assert_array_equal(ids, np.asarray(theirs))
    backbone = keras_hub.models.Backbone.from_preset(str(FOLDER))
    mask = (ids != 0).astype("int32")
    inputs = {"token_ids": ids, "segment_ids": segments, "padding_mask": mask}
    expected = np.asarray(backbone.predict(inputs, verbose=0)["sequence_output"])
    # The segments of padding differ, and do not matter.
    given = {**inputs, "segment_ids": np.where(mask, segments, 1)}
    states = np.asarray(model.encoder.predict(given, verbose=0))
    np.testing.assert_allclose(states[mask == 1], expected[mask == 1], atol=1e-4)
    means = (states * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    alike = means @ means.T - 2 * np.eye(len(texts))
    nearest = alike.argmax(axis=1)
    assert nearest.tolist() == [row ^ 1 for row in range(len(texts))]
