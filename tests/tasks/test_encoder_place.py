import importlib.util
import socket
import time
from pathlib import Path

import pytest

from keras_quasiattn.errors import UserError
from keras_quasiattn.lab.tasks import encoder_place
from keras_quasiattn.lab.tasks.encoder import _licence, _loaded, load_encoder
from keras_quasiattn.lab.tasks.encoder_place import check_place

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("keras_hub") is None, reason="needs the extra pretrained"
)
TRAIN = ("train", "classify", "--run", "run", "--data")


@pytest.fixture(autouse=True)
def no_network(monkeypatch, tmp_path):
    def refused(*_, **__):
        raise OSError("Name or service not known")

    monkeypatch.setattr(socket, "create_connection", refused)
    proxies = ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")
    for name in (*proxies, "HF_HUB_OFFLINE", "HF_ENDPOINT"):
        monkeypatch.setenv(name, "")  # so that it is restored
        monkeypatch.delenv(name)
    for name in ("HF_HUB_CACHE", "KAGGLEHUB_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("", "model.encoder is '': name an encoder, with --encoder PLACE: a folder with"),
        ("no/such/folder", "the encoder 'no/such/folder': no such folder: name a folder with"),
        ("/no/such/folder", "no such folder"),
        ("./nothing", "no such folder"),
        ("bert_tiny_en_uncased", "'bert_tiny_en_uncased': api.kaggle.com cannot be reached"),
        ("kaggle://keras/bert/keras/bert_tiny_en", "api.kaggle.com cannot be reached, and it was"),
        ("hf://someone/bert", "huggingface.co cannot be reached, and it was not downloaded"),
    ],
)
def test_a_place_that_is_not_there_is_one_line(place, said):
    with pytest.raises(UserError) as caught:
        check_place(place)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_a_folder_without_a_configuration_is_refused_and_a_file_is_no_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.tsv").touch()
    for place, said in ((".", r"has no config\.json"), ("mine.tsv", "is a file")):
        with pytest.raises(UserError, match=f"{said}: name a folder"):
            check_place(place)


def test_a_place_of_an_unknown_kind_is_refused_with_the_kinds_that_there_are():
    """KerasHub lists them in further lines, of which the first told nothing."""
    with pytest.raises(UserError) as caught:
        load_encoder("foo://bert")
    assert "hf://" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ('{"model_type": "albert"}', "does not load: its files have no 'vocab_size'"),
        ('{"a": ', r"config.json, line 1, column 7: Expecting value"),
        ("null", r"config.json, line 1: it must be a JSON object"),
        ("[]", r"config.json, line 1: it must be a JSON object"),
        (b'{"a": "\xe9"}', r"config.json, line 1: it is not UTF-8"),
    ],
)
def test_a_damaged_configuration_was_named_by_a_word_or_a_position_alone(config, said, tmp_path):
    content = config if isinstance(config, bytes) else config.encode()
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(UserError, match=said):
        load_encoder(str(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("vocab.txt", b"[PAD]\n[UNK]\na\n[CLS]\r\na\n", "line 5: the piece 'a' is in line 3 alre"),
        ("vocab.txt", b"[PAD]\n[UNK]\n\na\n", "line 3: it is empty: expected a piece in each"),
        ("vocab.txt", b"[PAD]\n[UNK]\n\xe9\n", "line 3: it is not UTF-8"),
        ("vocab.txt", b"\xef\xbb\xbf[PAD]\n[UNK]\n", "line 1: it begins with a byte-order mark"),
        ("assets/tokenizer/vocabulary.txt", b"a\na\n", "line 2: the piece 'a' is in line 1"),
        ("tokenizer_config.json", b"[]", "line 1: it must be a JSON object"),
        ("tokenizer_config.json", b'{\n"a" 1}', "line 2, column 5: Expecting ':' delimiter"),
        ("tokenizer_config.json", b'{"do_lower_case": "false"}', "do_lower_case is 'false': it mu"),
    ],
)
def test_a_damaged_file_was_named_by_neither_name_nor_line(name, content, said, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError) as wrong:
        check_place(str(tmp_path))
    assert str(wrong.value).startswith(str(tmp_path / name)) and said in str(wrong.value)


def test_lines_may_end_as_on_windows(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "vocab.txt").write_bytes(b"[PAD]\r\n[UNK]\r\na")
    check_place(str(tmp_path))


def test_what_was_downloaded_needs_no_network(tmp_path):
    folder = tmp_path / "cache" / "models--someone--bert" / "snapshots" / "1"
    folder.mkdir(parents=True)
    with pytest.raises(UserError, match="was not downloaded before"):  # a download that failed
        check_place("hf://someone/bert")
    (folder / "config.json").write_text("{}")
    check_place("hf://someone/bert")
    assert encoder_place.os.environ["HF_HUB_OFFLINE"] == "1"


@pytest.mark.parametrize(
    ("variable", "below"), [("HF_HOME", "hub"), ("XDG_CACHE_HOME", "huggingface/hub")]
)
def test_downloads_were_not_found_where_other_variables_of_the_client_put_them(
    variable, below, tmp_path, monkeypatch
):
    monkeypatch.delenv("HF_HUB_CACHE")
    monkeypatch.setenv(variable, str(tmp_path))
    folder = tmp_path / below / "models--someone--bert" / "snapshots" / "1"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    check_place("hf://someone/bert")


def test_the_mirror_of_hf_endpoint_was_not_asked(monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://mirror.example:8080/")
    asked = []

    def connect(place, **_):
        asked.append(place)
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", connect)
    check_place("hf://someone/bert")
    assert asked == [("mirror.example", 8080)]


def test_an_encoder_without_a_limit_on_its_positions_was_a_traceback(tmp_path):
    import keras_hub

    sizes = {"num_heads": 1, "hidden_dim": 4, "intermediate_dim": 4}
    xlnet = keras_hub.models.XLNetBackbone(vocabulary_size=9, num_layers=1, **sizes)
    xlnet.save_to_preset(str(tmp_path / "xlnet"))
    with pytest.raises(UserError, match="a XLNetBackbone: its number of positions has no limit"):
        load_encoder(str(tmp_path / "xlnet"))


@pytest.mark.parametrize(
    ("card", "licence"),
    [
        ("'mit'", "mit"),
        ("apache-2.0", "apache-2.0"),
        ("\n- mit\n- gpl", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_licence_was_the_next_word_of_the_card(card, licence, tmp_path):
    (tmp_path / "README.md").write_text(f"---\nlicense: {card}\ntags: [small]\n---\n")
    assert _licence(str(tmp_path)) == licence


def test_without_keras_hub_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(encoder_place.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"keras_hub is not installed: .*\[pretrained\]"):
        check_place("bert_tiny_en_uncased")


def test_the_search_of_an_address_that_takes_long_is_given_up(monkeypatch):
    def slow(*_, **__):
        time.sleep(1)
        raise OSError

    monkeypatch.setattr(socket, "create_connection", slow)
    monkeypatch.setattr(encoder_place, "_SECONDS", 0.05)
    begun = time.monotonic()
    with pytest.raises(UserError, match="cannot be reached"):
        check_place("bert_tiny_en_uncased")
    assert time.monotonic() - begun < 1


def test_the_command_line_says_it_before_anything_slow(run_cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.tsv").write_text("text\tlabel\na\tx\nb\ty\n")
    for more, said in (
        (("--encoder", "no/folder"), "no such folder"),
        (("--encoder", "bert_tiny_en_uncased"), "cannot be reached"),
        (("--model", "encoder"), "model.encoder is ''"),
        (("--model", "bilstm_soft", "--encoder", "x"), "--encoder needs the model 'encoder'"),
    ):
        code, out, err = run_cli(*TRAIN, "my.tsv", *more)
        assert code == 1 and said in err and err.count("\n") == 1 and not out
    assert not (tmp_path / "run").exists()
    code, _, err = run_cli("train", "mlu", "--run", "run", "--encoder", "x")
    assert code == 1 and "tasks that have one: classify, pairs, rank" in err


def test_a_run_that_has_its_encoder_is_not_asked_for_the_place(run_cli, encoder_run, texts_data):
    train = ("train", "classify", "--run", str(encoder_run), "--data", f"{texts_data}/train.tsv")
    code, _, err = run_cli(*train, "--encoder", "gone/long/ago")
    assert code == 1 and "was started with" in err and "no such folder" not in err


def test_a_wrong_name_was_a_status_without_a_reason():
    def load():
        raise OSError("401 Client Error. (Request ID: 1)\n\nRepository Not Found for url: u.")

    with pytest.raises(UserError, match="401 Client Error.*1\\) Repository Not Found for url: u."):
        _loaded("hf://a/b", load)
