import functools
import itertools

import keras
import numpy as np
import pytest
from test_writers import CENTERED, B, T, V, make, token_log_probabilities
from test_writers import ids as ids_of
from tools import sampled, to_numpy

from keras_quasiattn.attention.probe import probe
from keras_quasiattn.models import (
    CausalTransformer,
    beam_search,
    greedy_search,
    sampling_search,
)

ATTENTIONS = {
    "coda": {},
    "coda_centered": {"attention_options": CENTERED},
    **{name: {"attention": name} for name in ("softmax", "gated", "sigmoid", "conflict")},
}


def ids():
    return ids_of(CausalTransformer)


@functools.cache
def made(attention, normalize_first=True):
    """Return a model that no test changes, and its logits."""
    model = make(CausalTransformer, **ATTENTIONS[attention], normalize_first=normalize_first)
    return model, to_numpy(model(ids()))


SEARCHES = {
    "greedy": (greedy_search, {}),
    "beam": (beam_search, {"beam_width": 3}),
    "sampling": (sampling_search, {"seed": 1, "temperature": 0.7, "top_k": 5}),
}


@pytest.mark.parametrize(
    "attention,search", sampled(itertools.product(["coda_centered", "softmax"], SEARCHES), 4)
)
def test_prompts_of_any_length_are_continued_as_a_full_pass_says(attention, search):
    model, _ = made(attention)
    search, options = SEARCHES[search]
    prompt, lengths = np.array([[5, 3], [4, 0], [0, 0]]), [2, 1, 0]
    tokens, total = model.generate(prompt, 6, search, **options)
    tokens = to_numpy(tokens)
    assert tokens.shape == (3, 6) and tokens[0, :2].tolist() == [5, 3] and tokens[1, 0] == 4
    each = token_log_probabilities(model, tokens)
    want = (each * (np.arange(6) >= np.array(lengths)[:, None])).sum(1)
    np.testing.assert_allclose(to_numpy(total), want, atol=1e-4)
    if search is not sampling_search:  # whose noise differs by row
        alone, _ = model.generate(prompt[1:2, :1], 6, search, **options)
        np.testing.assert_array_equal(to_numpy(alone), tokens[1:2])


def test_a_probe_sees_each_blocks_attention_and_nothing_ahead():
    model, want = made("coda_centered")
    output, maps = probe(model, ids())
    np.testing.assert_allclose(to_numpy(output), want, atol=1e-5)
    assert [one.layer for one in maps] == [
        f"decoder_block_{number}/self_attention" for number in range(2)
    ]
    for one in maps:
        assert list(one.matrices) == ["similarity", "gate", "weights"]
        weights = one.matrices["weights"]
        visible = np.broadcast_to(to_numpy(weights.visible), weights.values.shape)
        assert weights.values.shape == (B, 2, T, T) and not np.triu(visible, 1).any()
        # A query's mean is over what it sees: a query alone is its own mean, so N is 0.
        np.testing.assert_allclose(
            to_numpy(one.matrices["gate"].values)[:, :, 0, 0], 0.5, atol=1e-6
        )


def test_one_table_embeds_and_predicts_and_post_norm_has_no_last_norm():
    pre, post = made("coda")[0], made("coda", normalize_first=False)[0]
    assert [tuple(w.shape) for w in pre.weights if V in w.shape] == [(V, 12)]
    assert pre.count_params() - post.count_params() == 2 * 12


@pytest.mark.parametrize(
    "attention", ["coda_centered", pytest.param("conflict", marks=pytest.mark.complete)]
)
@pytest.mark.long
def test_a_saved_model_answers_and_generates_without_this_package(
    attention, tensorflow_only, tmp_path
):
    import tensorflow as tf
    import without_keras

    model, want = made(attention)

    def generate(prompt):
        length = tf.shape(prompt)[1] + 3
        tokens, total = model.generate(prompt, length, beam_search, beam_width=2)
        return {"tokens": tokens, "total": total}

    archive = keras.export.ExportArchive()
    archive.track(model)
    signature = [tf.TensorSpec((None, None), tf.int32, name="ids")]
    archive.add_endpoint("serve", lambda ids: {"logits": model(ids)}, input_signature=signature)
    archive.add_endpoint("generate", generate, input_signature=signature)
    archive.write_out(tmp_path, verbose=False)
    answer = without_keras.ask(tmp_path, {"ids": ids()}, "serve")
    np.testing.assert_allclose(answer["logits"], want, atol=1e-5)
    padded = np.array([[0, 5, 1, 3], [4, 1, 0, 0]], "int32")  # on both sides, with ends
    for prompt in (ids()[:, 1:3], ids()[:1, 1:], padded):
        answer = without_keras.ask(tmp_path, {"ids": prompt}, "generate")
        tokens, total = model.generate(prompt, prompt.shape[1] + 3, beam_search, beam_width=2)
        np.testing.assert_array_equal(answer["tokens"], to_numpy(tokens))
        np.testing.assert_allclose(answer["total"], to_numpy(total), atol=1e-4)


def test_a_prompt_that_is_no_prompt_or_does_not_fit_is_named():
    for prompt in (ids()[0], ids().astype("float32")):
        with pytest.raises(ValueError, match="`prompt` must be integers of shape"):
            made("coda")[0].generate(prompt, 9)
    with pytest.raises(ValueError, match=r"`length` must be at least.*length=2.*\(4, 5\)"):
        made("coda")[0].generate(ids(), 2)


@pytest.mark.parametrize("name", SEARCHES)
def test_prompts_were_not_continued_with_another_float_type(name, floatx):
    model = make(CausalTransformer)
    search, options = SEARCHES[name]
    tokens, total = model.generate(np.array([[5, 3], [4, 0]]), 3, search, **options)
    assert to_numpy(tokens)[:, 0].tolist() == [5, 4]
    assert np.isfinite(to_numpy(total)).all()
