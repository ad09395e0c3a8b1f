import html
import re

import keras
import numpy as np
import pytest

import keras_quasiattn
from keras_quasiattn import layers

for package in ("jinja2", "matplotlib"):
    pytest.importorskip(package, reason="extra report is not installed")

A, B = np.ones((2, 2, 4), "float32"), np.ones((2, 3, 4), "float32")
TOKENS = [["<b>", "?"], ["it", "was", "she"]]


def test_a_notebook_gets_a_frame_with_the_whole_page(tmp_path):
    view = keras_quasiattn.report.show(layers.CoDA(name="coda"), [A, B], tokens=TOKENS, title="<i>")
    frame = view._repr_html_()
    (attribute,) = re.findall(r'srcdoc="([^"]*)"', frame)
    assert html.unescape(attribute) == view.html()
    assert 'sandbox="allow-scripts"' in frame
    assert "<i>" not in frame
    view.save(tmp_path / "view.html")
    assert (tmp_path / "view.html").read_text() == view.html()
    assert view.figure().png.startswith(b"\x89PNG") and b"was" in view.figure().light


def test_every_attention_layer_of_a_model_is_shown():
    x = keras.Input((None, 4))
    attended = layers.MultiHeadCoDA(num_heads=2, key_dim=2, name="coda")(x, x)
    model = keras.Model(x, layers.GatedAttention(units=2, name="gated")(attended))
    first, second = keras_quasiattn.report.show(model, B, tokens=TOKENS[1:], index=1).maps
    assert first.heads == 2 and first.panels[0].rows == TOKENS[1]
    assert [panel.title for panel in second.panels] == ["gates", "weights"]


@pytest.mark.parametrize("called", [False, True])
def test_a_model_whose_call_is_traced_had_no_attention(called, tensorflow_only):
    import tensorflow as tf

    class Traced(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.attention = layers.MultiHeadCoDA(num_heads=2, key_dim=2)

        @tf.function
        def call(self, x):
            return self.attention(x, x)

    model = Traced()
    if called:
        model(B)
    assert len(keras_quasiattn.report.show(model, B).maps) == 1
    assert not tf.config.functions_run_eagerly()


def test_a_model_stands_beside_its_swapped_copy():
    ids = keras.Input((None,), dtype="int32")
    x = keras.layers.Embedding(9, 4, mask_zero=True)(ids)
    before = keras.Model(ids, keras.layers.MultiHeadAttention(2, 2, name="attention")(x, x))
    tokens = [["it", "was", "<pad>"]]
    views = [
        keras_quasiattn.report.show(model, np.array([[3, 4, 0]]), tokens=tokens)
        for model in (before, keras_quasiattn.models.swap_attention(before))
    ]
    maps = [one for view in views for one in view.maps]
    names = ["attention (MultiHeadAttention)", "attention (MultiHeadCoDA)"]
    assert [one.name for one in maps] == names and [one.heads for one in maps] == [2, 2]
    (softmax,) = maps[0].panels
    hidden = np.isnan(softmax.values)
    assert softmax.title == "softmax weights" and softmax.columns == tokens[0]
    np.testing.assert_array_equal(hidden, np.isnan(maps[1].panels[-1].values))
    assert hidden[:, 0].tolist() == [[False, False, True]] * 2
    assert all(name in keras_quasiattn.report.AttentionView(maps, "both").html() for name in names)


def test_the_weights_of_a_swapped_subclass_were_called_those_of_a_softmax():
    class Own(keras.layers.MultiHeadAttention):
        """A subclass that inherits everything."""

    x = keras.Input((3, 4))
    model = keras.Model(x, Own(2, 2, name="attention")(x, x))
    copy = keras_quasiattn.models.swap_attention(model, "coda")
    (shown,) = keras_quasiattn.report.show(copy, B).maps
    assert [panel.title for panel in shown.panels] == ["tanh(E)", "2·sigmoid(N)", "M"]


def test_a_layer_without_attention_is_refused():
    with pytest.raises(ValueError, match="must contain an attention layer of keras_quasiattn"):
        keras_quasiattn.report.show(keras.layers.Dense(2), A)
    for wrong in (None, A, keras.layers.Dense):
        with pytest.raises(ValueError, match="`layer` must be a Keras layer or model. Received"):
            keras_quasiattn.report.show(wrong, A)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([["who"], TOKENS[1]], r"`tokens\[0\]` .* Received: 1 tokens; .* have 2 and 3 positions"),
        ([TOKENS[0], ["it"] * 4], r"`tokens\[1\]` .* Received: 4 tokens"),
        ([[]], r"`tokens\[0\]` .* Received: 0 tokens"),
    ],
)
def test_tokens_of_another_length_became_numbers(tokens, message):
    with pytest.raises(ValueError, match=message):
        keras_quasiattn.report.show(layers.CoDA(name="coda"), [A, B], tokens=tokens)


def test_tokens_of_another_length_are_refused_by_every_kind_of_layer():
    x = keras.Input((None, 4))
    attended = keras.layers.MultiHeadAttention(2, 2)(x, x)
    kinds = {
        "pooled": (layers.GatedAttention(units=2), B),
        "a model": (keras.Model(x, attended), B),
        "heads": (layers.MultiHeadCoDA(num_heads=2, key_dim=2), B, B),
    }
    for layer, *arguments in kinds.values():
        with pytest.raises(ValueError, match="Received: 2 tokens; the sequences have 3 positions"):
            keras_quasiattn.report.show(layer, *arguments, tokens=[TOKENS[0]])
        assert keras_quasiattn.report.show(layer, *arguments, tokens=[TOKENS[1]]).maps


@pytest.mark.parametrize("tokens", ["who", ["who", "are"], {"x": ["a", "b", "c"]}, [3], [b"who"]])
def test_a_word_in_place_of_a_list_was_shown_letter_by_letter(tokens):
    x = np.ones((1, 3, 4), "float32")
    with pytest.raises(ValueError, match="`tokens` must be a list for each sequence, such as"):
        keras_quasiattn.report.show(layers.MultiHeadCoDA(1, 4), x, x, tokens=tokens)


def test_ids_and_bytes_are_tokens_too():
    x = np.ones((1, 3, 4), "float32")
    layer = layers.MultiHeadCoDA(1, 4)
    for tokens, shown in (
        ([5, 3, 0], ["5", "3", "0"]),
        ([b"a", b"\xff", "c"], ["a", "\ufffd", "c"]),
    ):
        view = keras_quasiattn.report.show(layer, x, x, tokens=[tokens])
        assert view.maps[0].panels[0].rows == shown


@pytest.mark.parametrize("index", [2, -3, 0.5, "0"])
def test_an_example_beyond_the_batch_was_the_last_one(index):
    x = np.ones((2, 3, 4), "float32")
    with pytest.raises(ValueError, match="`index` must be the number of an example in the batch"):
        keras_quasiattn.report.show(layers.MultiHeadCoDA(1, 4), x, x, index=index)


def test_sequences_without_positions_are_refused():
    layer, x = layers.MultiHeadCoDA(2, 4), np.ones((1, 3, 8), "float32")
    layer(x, x)
    with pytest.raises(ValueError, match=r"at least one position. Received: .*\(1, 2, 0, 3\)"):
        keras_quasiattn.report.show(layer, x[:, :0], x)


def test_an_infinite_weight_had_no_colour():
    x = np.full((1, 2, 4), 1e20, "float32")
    layer = layers.MultiHeadReLU(num_heads=1, key_dim=2, kernel_initializer="ones")
    view = keras_quasiattn.report.show(layer, x, x)
    assert np.isnan(view.maps[0].panels[0].values).all() and "<html" in view.html()


@pytest.mark.parametrize("place", [{"head": 2}, {"head": -3}, {"head": "0"}, {"number": 1}])
def test_a_head_beyond_the_last_was_the_last_one(place):
    x = np.ones((2, 3, 4), "float32")
    view = keras_quasiattn.report.show(layers.MultiHeadCoDA(2, 4), x, x)
    ((name, value),) = place.items()
    of = {"head": "a head, below 2", "number": "a map of this view, below 1"}[name]
    with pytest.raises(
        ValueError, match=f"`{name}` must be the number of {of}. Received: {value!r}"
    ):
        view.figure(**place)
    assert "head 2 of 2" in view.figure(head=-1).caption


def test_an_example_counted_from_the_end_was_missing_in_a_matrix_for_all_examples():
    queries, states = keras.Input((2, 4), batch_size=1), keras.Input((3, 4))
    one, other = (layers.MultiHeadSoftmax(1, 4, name=name) for name in ("one", "other"))
    model = keras.Model([queries, states], [one(queries, queries), other(states, states)])
    x = [np.ones((1, 2, 4), "float32"), np.ones((3, 3, 4), "float32")]
    shown = keras_quasiattn.report.show(model, x, index=-2).maps
    assert {found.panels[0].values.shape for found in shown} == {(1, 2, 2), (1, 3, 3)}
