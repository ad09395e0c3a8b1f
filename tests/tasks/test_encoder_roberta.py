"""A RoBERTa as the pretrained encoder: byte-level BPE, padding that is not 0, and no segments."""

import json
import shutil

import numpy as np
import pytest
import tiny_encoder
import without_keras
from tiny import prepared
from tools import eagerly

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.training import RunFolder, train
from keras_quasiattn.serving import export, serve_check


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    pytest.importorskip("keras_hub", reason="needs the extra pretrained")
    return tiny_encoder.write(tmp_path_factory.mktemp("roberta") / "place", "RobertaBackbone")


def test_a_run_reads_and_computes_as_keras_hub_does(place, texts_data):
    import keras_hub

    task, model = tiny_encoder.started(texts_data, "classify", place)
    ids = task.tokenize(["who was it", "where"]).inputs["ids"]
    tokenizer = keras_hub.models.RobertaTokenizer.from_preset(str(place))
    own = [[0, *map(int, row), 2] for row in tokenizer(["who was it", "where"])]
    width = max(map(len, own))
    token_ids = np.array([[*row, *[1] * (width - len(row))] for row in own], "int32")
    # In a run, padding is 0, and the start token has padding's old id.
    np.testing.assert_array_equal(np.where(ids < 2, 1 - ids, ids), token_ids)
    mask = (token_ids != 1).astype("int32")
    backbone = keras_hub.models.Backbone.from_preset(str(place))
    states = np.array(backbone({"token_ids": token_ids, "padding_mask": mask}))
    means = (states * mask[..., None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    kernel, bias = (np.array(one) for one in model.get_layer("logits").weights)
    np.testing.assert_allclose(model(ids), means @ kernel + bias, atol=1e-5)


@pytest.mark.parametrize("name", ["pairs", "rank"])
def test_two_texts_have_two_ends_between_them(name, place, request):
    task = prepared(tiny_encoder.make(request.getfixturevalue(f"{name}_data"), name, place))
    (tokens,) = task.tokenize(["the cat\ta dog"]).tokens["ids"]
    text = "".join(tokens).replace("\u0120", " ")
    assert text == "<s>the cat</s></s>a dog</s>"
    assert task.serving_signature(task.build_model()).joined == 4


@pytest.mark.long
def test_it_exports_without_its_place_and_any_text_is_answered(place, texts_data, tmp_path):
    copy = shutil.copytree(place, tmp_path / "place")
    steps = {"training__steps": 2, "training__checkpoint_every": 1}
    task = tiny_encoder.make(texts_data, "classify", copy, **steps)
    with eagerly():
        train(task, tmp_path / "run", progress=False)
    shutil.rmtree(copy)
    folder = RunFolder.open(tmp_path / "run", finished=True)
    path = export(folder, folder.task(""), tmp_path / "saved")
    assert any("stock server links" in line for line in serve_check(path, repetitions=1))
    texts = ["who was it", "", "\u00e9t\u00e9 <s> \U0001f642\0x", "many " * 40]
    answer = without_keras.ask(path, {"text": texts})
    expected = folder.task("").predict(folder.load_model(), texts)
    np.testing.assert_allclose(
        answer["probabilities"], [one["probabilities"] for one in expected], atol=1e-5
    )
    (tmp_path / "run" / "merges.txt").unlink()
    with pytest.raises(UserError, match="merges.txt"):
        folder.task("")


def test_a_damaged_vocabulary_gives_a_one_line_error(place, texts_data, tmp_path):
    copy = shutil.copytree(place, tmp_path / "place")
    file = copy / "assets" / "tokenizer" / "merges.txt"
    file.write_text(f"x\n{file.read_text(encoding='utf-8')}", encoding="utf-8")
    with pytest.raises(UserError, match=r"merges.txt, line 1: the merge 'x' must be two pieces"):
        tiny_encoder.make(texts_data, "classify", copy).prepare()


@pytest.mark.parametrize("with_prefix", [True, False])
@pytest.mark.parametrize("family", ["RobertaBackbone", "DistilBertBackbone"])
def test_a_folder_of_hugging_faces_transformers_is_the_same_encoder(
    family, with_prefix, place, texts_data, tmp_path
):
    # Models without a head, such as sentence-transformers', have names without that of the model,
    # which KerasHub did not find.
    pytest.importorskip("safetensors")
    if family != "RobertaBackbone":
        place = tiny_encoder.write(tmp_path / "place", family)
    folder = tiny_encoder.write_transformers_form(place, tmp_path / "transformers", with_prefix)
    found = []
    for one in (place, folder):
        task, model = tiny_encoder.started(texts_data, "classify", one)
        ids = task.tokenize(["who was it", "\u00e9t\u00e9 \U0001f642"]).inputs["ids"]
        found.append([ids, *model.encoder.get_weights()])
    for of_place, of_folder in zip(*found, strict=True):
        np.testing.assert_array_equal(of_place, of_folder)


@pytest.mark.parametrize("family", ["RobertaBackbone", "DistilBertBackbone"])
def test_layers_that_the_configuration_has_not_were_left_out(family, texts_data, tmp_path):
    pytest.importorskip("safetensors")
    place = tiny_encoder.write(tmp_path / "place", family)
    folder = tiny_encoder.write_transformers_form(place, tmp_path / "transformers")
    for one, unread in ((folder, r"\.layer\.1\."), (place, "transformer_(encoder|block)_1$")):
        config = json.loads((one / "config.json").read_text())
        values = config.get("config", config)
        values |= {n: 1 for n in ("num_hidden_layers", "n_layers", "num_layers") if n in values}
        (one / "config.json").write_text(json.dumps(config))
        with pytest.raises(UserError, match=f"config.json has too few layers: .*{unread}"):
            tiny_encoder.started(texts_data, "classify", one)


def test_a_run_that_was_killed_among_its_assets_was_called_damaged(place, texts_data, tmp_path):
    task = prepared(tiny_encoder.make(texts_data, "classify", place))
    run = RunFolder.create(tmp_path / "run", task, options={})
    for name, content in task.assets().items():
        (run.path / name).write_bytes(content)
        again = tiny_encoder.make(texts_data, "classify", place)
        again.resume(run.path)
        again.prepare()
        assert again.assets() == task.assets()
