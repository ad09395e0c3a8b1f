import threading
from pathlib import Path

import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.serving.server_files import BATCHING, MODELS, add_model, read_models


def names(folder: Path) -> list[tuple[str, str]]:
    return [(model.name, model.base_path) for model in read_models(folder).model_config_list.config]


def test_every_model_is_named_once(tmp_path):
    for name in ("trec", "arithmetic", "trec"):
        add_model(tmp_path, name)
    assert names(tmp_path) == [("trec", "/models/trec"), ("arithmetic", "/models/arithmetic")]
    assert {file.name for file in tmp_path.iterdir()} == {MODELS, BATCHING}
    # Without it, a request of another length would fail the batch that it is joined to.
    assert "\npad_variable_length_inputs: true\n" in (tmp_path / BATCHING).read_text()


def test_what_a_person_has_set_stays(tmp_path):
    (tmp_path / BATCHING).write_text("max_batch_size { value: 7 }")
    (tmp_path / MODELS).write_text(
        "model_config_list { config { name: 'trec' base_path: '/srv/trec' "
        "model_version_policy { specific { versions: 3 } } } }"
    )
    add_model(tmp_path, "trec")
    add_model(tmp_path, "other")
    assert names(tmp_path) == [("trec", "/srv/trec"), ("other", "/models/other")]
    policy = read_models(tmp_path).model_config_list.config[0].model_version_policy
    assert list(policy.specific.versions) == [3]
    assert (tmp_path / BATCHING).read_text() == "max_batch_size { value: 7 }"


def test_exports_at_the_same_time_are_all_named(tmp_path):
    wanted = [f"model{number}" for number in range(12)]
    threads = [threading.Thread(target=add_model, args=(tmp_path, name)) for name in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(name for name, _ in names(tmp_path)) == sorted(wanted)


@pytest.mark.parametrize("content", [b"models: 3", b"\xff\xfe"])
def test_damaged_file_is_named_and_kept(content, tmp_path):
    (tmp_path / MODELS).write_bytes(content)
    with pytest.raises(
        UserError, match=f"{tmp_path}/models.config is not a valid ModelServerConfig"
    ):
        add_model(tmp_path, "trec")
    assert (tmp_path / MODELS).read_bytes() == content


def test_comments_were_lost_when_a_model_was_added(tmp_path):
    mine = (
        "# ours\nmodel_config_list {  # by hand\n  config { name: 'trec' base_path: '/srv' }\n}\n"
    )
    (tmp_path / MODELS).write_text(mine)
    add_model(tmp_path, "other")
    add_model(tmp_path, "third")
    text = (tmp_path / MODELS).read_text()
    assert text.startswith(mine[:-2]) and [name for name, _ in names(tmp_path)] == [
        "trec", "other", "third"
    ]  # fmt: skip


def test_a_model_in_an_unusual_place_is_added_all_the_same(tmp_path):
    (tmp_path / MODELS).write_text("model_config_list <config {name: 'trec' base_path: '/srv'}>")
    add_model(tmp_path, "other")
    assert [name for name, _ in names(tmp_path)] == ["trec", "other"]


def test_a_list_does_not_replace_another_configuration(tmp_path):
    (tmp_path / MODELS).write_text("custom_model_config {}")
    with pytest.raises(UserError, match="models.config has a custom_model_config: delete that"):
        add_model(tmp_path, "trec")
