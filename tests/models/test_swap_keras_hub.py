"""Every kind of KerasHub model is swapped, or rejected in one line that says why."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops
from tools import only_on, reloaded

from benchmarks import tiny_hub
from keras_quasiattn.attention.start import Start
from keras_quasiattn.models import swap_attention

hub = pytest.importorskip("keras_hub", reason="keras_hub is not installed")
MODELS: dict[str, keras.Model] = {}
FAST = ("BERT", "GPT-2", "Llama")
# Their blocks are those of BERT, GPT-2, Llama or ViT.
ALIKE = (
    *("DistilBERT", "RoBERTa", "XLM-R", "BERT classifier", "BERT masked words"),
    *("ELECTRA", "OPT", "Mistral", "DeiT"),
)


def original(name: str) -> keras.Model:
    """Return the model, with biases other than 0."""
    if name not in MODELS:
        model = {**tiny_hub.SWAPPED, **tiny_hub.REFUSED}[name](hub)
        random = np.random.default_rng(0)
        for weight in model.trainable_weights:
            if "position" in weight.path:  # DINOv2's own files lose all but the first ones
                weight.trainable = False
                continue
            weight.assign(0.3 * random.normal(size=weight.shape))
        MODELS[name] = model
    return MODELS[name]


def answers(model: keras.Model) -> list[np.ndarray]:
    found = keras.tree.flatten(model(tiny_hub.inputs(model), training=False))
    return [ops.convert_to_numpy(one) for one in found]


def difference(model: keras.Model, other: keras.Model) -> float:
    pairs = zip(answers(model), answers(other), strict=True)
    return max(float(np.abs(one - two).max()) for one, two in pairs)


def some(names: Any, fast: tuple[str, ...]) -> list[Any]:
    others = {one: pytest.mark.complete if one in ALIKE else pytest.mark.long for one in names}
    return [pytest.param(one, marks=[] if one in fast else mark) for one, mark in others.items()]


@pytest.mark.parametrize("name", some(tiny_hub.SWAPPED, FAST))
def test_a_model_is_swapped_answers_as_before_learns_and_is_saved(name, tmp_path):
    model = original(name)
    copy = swap_attention(model, "coda", start="unchanged")
    assert isinstance(copy, type(model)) and copy.name == model.name
    assert difference(copy, model) <= 1e-6
    other = swap_attention(model, "coda")
    assert difference(other, model) > 1e-4
    learn(copy)
    assert difference(copy, model) > 0
    factors = [
        ops.max(ops.abs(one.amount)) for one in copy._flatten_layers() if isinstance(one, Start)
    ]
    assert len(factors) == attention_count(model) and any(float(one) > 0 for one in factors)
    for one in (copy, other):
        loaded = reloaded(one, tmp_path)
        assert isinstance(loaded, type(model)) and difference(one, loaded) <= 1e-6


@pytest.mark.parametrize("name", some(("BERT", "GPT-2", "BART", "Llama"), ("BERT", "GPT-2")))
def test_weights_of_different_layers_had_the_same_path(name, tmp_path):
    """Rates by layer, decay and distribution choose weights by their paths."""
    paths = [weight.path for weight in original(name).weights]
    assert len(set(paths)) == len(paths)
    for start in ("projections", "unchanged", "blend"):
        copy = swap_attention(original(name), "coda", start=start, alpha="learned")
        found = [weight.path for weight in copy.weights]
        assert len(set(found)) == len(found) and set(paths) <= set(found)
        loaded = reloaded(copy, tmp_path)  # KerasHub's own Llama cannot be cloned
        # Those of a loaded BART come in another order
        assert sorted(weight.path for weight in loaded.weights) == sorted(found)


@pytest.mark.parametrize("name", some(("BERT classifier", "GPT-2"), ("BERT classifier",)))
def test_a_clone_and_a_nested_model_keep_the_swap(name, tmp_path):
    """Keras clones layer by layer and saves a nested model alone: each part must know the swap."""
    copy = swap_attention(original(name), "coda", start="unchanged")
    learn(copy)
    clone = keras.models.clone_model(copy)
    clone.set_weights(copy.get_weights())
    assert difference(clone, copy) <= 1e-6
    part = getattr(copy, "backbone", copy)
    loaded = reloaded(part, tmp_path)
    assert difference(loaded, part) <= 1e-6
    again = swap_attention(copy, "sigmoid")
    assert attention_count(again) == attention_count(copy)


def test_a_quantized_copy_is_saved(tmp_path):
    """Its configuration is that of the original, which is not quantized."""
    copy = swap_attention(original("BERT"), "sigmoid")
    copy.quantize("int8", filters="query|output|embedding")
    loaded = reloaded(copy, tmp_path)
    assert [one.quantization_mode for one in loaded._flatten_layers()].count("int8") > 4
    assert difference(loaded, copy) <= 1e-5


def attention_count(model: keras.Model) -> int:
    def is_named(one: keras.Layer) -> bool:
        return "Attention" in type(one).__name__

    return sum(
        is_named(one) and not any(map(is_named, one._flatten_layers(include_self=False)))
        for one in model._flatten_layers()
    )


def learn(model: keras.Model) -> None:
    """Update all weights twice: the new attention's change only once its factor is not 0."""
    x = tiny_hub.inputs(model)
    same = keras.Model(model.input, keras.tree.flatten(model.output))
    same.compile("sgd", loss=["mse"] * len(same.outputs), run_eagerly=True)
    for _ in range(2):
        same.train_on_batch(x, [np.ones_like(one) for one in answers(model)])


@pytest.mark.parametrize("name", some(tiny_hub.REFUSED, ("T5",)))
def test_a_model_whose_attention_is_another_is_refused_in_one_line(name):
    with pytest.raises(ValueError, match="to swap for 'coda'. Unchanged: .*Attention") as caught:
        swap_attention(original(name))
    assert "\n" not in str(caught.value)
    assert "_compute_attention" in str(caught.value)


def moved(model: keras.Model) -> keras.Model:
    """Return the model with factors at which the new attention counts."""
    for one in model._flatten_layers():
        if isinstance(one, Start):
            one.amount.assign(ops.full(one.amount.shape, 0.5))
    return model


@pytest.mark.parametrize("kind", some(("GPT2", "OPT", "Llama"), ("GPT2",)))
def test_a_cache_gives_what_one_call_gives(kind):
    name = {"GPT2": "GPT-2"}.get(kind, kind)
    backbone = moved(swap_attention(original(name), "coda", start="unchanged"))
    task = getattr(hub.models, f"{kind}CausalLM")(backbone)
    ids = tiny_hub.inputs(task)["token_ids"]
    mask = np.ones_like(ids)
    whole = ops.convert_to_numpy(task({"token_ids": ids, "padding_mask": mask}))
    _, cache = task._build_cache(ops.zeros_like(ids))
    for index in range(4):
        logits, _, cache = task.call_with_cache(ids[:, index : index + 1], cache, index)
        np.testing.assert_allclose(ops.convert_to_numpy(logits)[:, 0], whole[:, index], atol=1e-4)


@pytest.mark.long
@only_on("tensorflow", "SavedModels are of TensorFlow")
@pytest.mark.parametrize("name", ["BERT", "BART", "Llama", "ViT"])
def test_it_is_exported(name, tmp_path):
    import tensorflow as tf

    copy = moved(swap_attention(original(name), "sigmoid", start="unchanged"))
    copy.export(tmp_path / "copy", verbose=False)
    exported = tf.saved_model.load(str(tmp_path / "copy"))
    found = keras.tree.flatten(exported.serve(tiny_hub.inputs(copy)))
    for one, other in zip(found, answers(copy), strict=True):
        np.testing.assert_allclose(one.numpy(), other, atol=1e-5)


@pytest.mark.long
def test_a_task_keeps_its_preprocessor_and_what_it_is_compiled_with(tmp_path):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
    tokenizer = hub.models.BertTokenizer(vocabulary=words)
    preprocessor = hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=12)
    backbone = hub.models.BertBackbone(**tiny_hub.ENCODER)
    task = hub.models.BertTextClassifier(backbone, num_classes=2, preprocessor=preprocessor)
    copy = swap_attention(task, "coda", start="unchanged")
    texts = ["good bad", "bad"]
    assert copy.preprocessor is preprocessor and copy.compiled
    np.testing.assert_allclose(copy.predict(texts), task.predict(texts), atol=1e-6)
    copy.fit(texts, [0, 1], verbose=0)
    loaded = reloaded(copy, tmp_path)
    np.testing.assert_allclose(copy.predict(texts), loaded.predict(texts), atol=1e-6)


@pytest.mark.long
def test_a_backbone_within_a_model_keeps_its_class_and_lora_its_meaning(tmp_path):
    backbone = original("BERT")
    pooled = backbone(backbone.input)["sequence_output"]
    model = keras.Model(backbone.input, keras.layers.Dense(3)(pooled[:, 0]))
    copy = swap_attention(model, "coda", start="unchanged")
    assert difference(copy, model) <= 1e-6
    inside = copy.get_layer(backbone.name)
    assert isinstance(inside, hub.models.BertBackbone) and inside is not backbone
    assert difference(copy, reloaded(copy, tmp_path)) <= 1e-6
    inside.enable_lora(2)
    assert difference(copy, model) <= 1e-6
    assert sum("lora" in weight.path for weight in copy.trainable_weights) == 8


@pytest.mark.long
def test_a_copy_is_swapped_again_from_its_original():
    model = original("GPT-2")
    once = swap_attention(model, "sigmoid")
    again = swap_attention(once, "coda")
    assert difference(again, swap_attention(model, "coda")) <= 1e-6
    with pytest.raises(ValueError, match="must not have been swapped before"):
        swap_attention(once, "coda", start="unchanged")
