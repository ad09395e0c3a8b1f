"""A server answers what clients ask.

The server is tensorflow_model_server if that is on the PATH, otherwise its double.
"""

import contextlib
import http.server
import importlib
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import grpc
import numpy as np
import pytest
import requests
import tiny_mlu
import warm

from keras_quasiattn.serving.warm_up import read_warm_up

EXAMPLES = tiny_mlu.ROOT / "examples" / "serving"
BENCHMARKS = tiny_mlu.ROOT / "benchmarks" / "serving"
sys.path.insert(0, str(EXAMPLES))
import ask_grpc  # noqa: E402
import ask_rest  # noqa: E402
from ask_grpc import GrpcClient  # noqa: E402
from ask_rest import RestClient  # noqa: E402

pytestmark = pytest.mark.long


class Server(NamedTuple):
    grpc: str
    rest: str
    pid: int


def free_ports() -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture(scope="module")
def server(mlu_saved_model, tmp_path_factory):
    folder, (port, rest_port) = mlu_saved_model.parents[1], free_ports()
    real = shutil.which("tensorflow_model_server")
    name, log = mlu_saved_model.parent.name, tmp_path_factory.mktemp("server") / "log"
    environment = tiny_mlu.environment()
    if real:
        command = [real, f"--port={port}", f"--rest_api_port={rest_port}", "--enable_batching"]
        command += [f"--batching_parameters_file={folder / 'batching_parameters.txt'}"]
        command += [f"--model_name={name}", f"--model_base_path={folder / name}"]
        with log.open("w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    else:
        command = [sys.executable, str(BENCHMARKS / "server_double.py"), str(folder)]
        command += [f"--port={port}", f"--rest-port={rest_port}", "--enable-batching"]
        process = warm.Process(command, env=environment)
    address = f"http://127.0.0.1:{rest_port}"
    try:
        for _ in range(240):
            with contextlib.suppress(requests.ConnectionError):
                status = requests.get(f"{address}/v1/models/{name}", timeout=5).json()
                if status.get("model_version_status", [{}])[0].get("state") == "AVAILABLE":
                    break
            said = log.read_bytes() if real else b"".join(process.outputs())
            assert process.poll() is None, said[-1000:].decode()
            time.sleep(0.5)
        yield Server(f"127.0.0.1:{port}", address, process.pid)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


@pytest.fixture(scope="module")
def records(mlu_saved_model):
    return read_warm_up(mlu_saved_model)


def test_grpc_answers_as_recorded(server, records):
    client = GrpcClient(server.grpc, timeout=180)
    for record in records:
        answer = client.predict("run", record.inputs, record.signature)
        assert answer.keys() == record.answer.keys()
        assert answer["answer"].tolist() == record.answer["answer"].tolist()
        np.testing.assert_allclose(
            answer["log_probability"], record.answer["log_probability"], rtol=1e-5
        )
    client.close()


def test_rest_answers_as_recorded(server, records):
    client = RestClient(server.rest, timeout=180)
    texts, ids = records[0], records[2]
    asked = {
        "serving_default": {"text": [tiny_mlu.QUESTION]},
        "token_ids": {name: value.tolist() for name, value in ids.inputs.items()},
    }
    for signature, inputs in asked.items():
        answer = client.predict("run", inputs, signature)
        assert answer["answer"] == [
            value.decode("utf-8", "replace") for value in texts.answer["answer"]
        ]
        assert answer["log_probability"] == pytest.approx(
            texts.answer["log_probability"].tolist(), rel=1e-5
        )
    rows = requests.post(
        f"{server.rest}/v1/models/run:predict",
        json={"instances": [{"text": tiny_mlu.QUESTION}, {"text": ""}]},
        timeout=180,
    ).json()["predictions"]
    assert len(rows) == 2
    assert rows[0]["log_probability"] == pytest.approx(answer["log_probability"][0], rel=1e-5)


IDS = {"text_ids": np.ones((2, 3), np.int32), "text_lengths": np.ones((3,), np.int32)}


@pytest.mark.parametrize(
    ("model", "inputs", "signature", "code", "message"),
    [
        ("other", {"text": ["x"]}, "serving_default", "NOT_FOUND",
         r"Servable not found for request: Latest\(other"),
        ("run", {"text": ["x"]}, "other", "FAILED_PRECONDITION",
         'Serving signature key "other" not found'),
        ("run", {"txt": ["x"]}, "serving_default", "INVALID_ARGUMENT", "text"),
        ("run", {"text": np.array([1.5])}, "serving_default", "INVALID_ARGUMENT", "string"),
        ("run", IDS, "token_ids", "INVALID_ARGUMENT",
         "must have the same number of rows|equal 0th-dimension"),
    ],
)  # fmt: skip
def test_malformed_request_is_refused_in_clear_words(
    model, inputs, signature, code, message, server
):
    client = GrpcClient(server.grpc, timeout=180)
    with pytest.raises(grpc.RpcError, match=message) as caught:
        client.predict(model, inputs, signature)
    assert caught.value.code().name == code
    client.close()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("v1/models/run:predict", b"{"),
        ("v1/models/run:predict", b"3"),
        ("v1/models/run:predict", b'{"instances": []}'),
        ("v1/models/run:predict", b'{"inputs": {"text": [["x"], "y"]}}'),
        ("v1/models/run:predict", b'{"inputs": {"text": {"b64": "?"}}}'),
        ("v1/models/other:predict", b'{"inputs": ["x"]}'),
        ("v2/none", b"{}"),
    ],
)
def test_malformed_rest_request(path, content, server):
    response = requests.post(f"{server.rest}/{path}", data=content, timeout=180)
    assert 400 <= response.status_code < 500 and response.json()["error"]


def test_rows_of_unequal_lists_are_refused_as_the_server_does(server):
    ids = [[3, 4, 5], [3, 4]]
    rows = [{"text_ids": one, "text_lengths": len(one)} for one in ids]
    asked = {"signature_name": "token_ids", "instances": rows}
    response = requests.post(f"{server.rest}/v1/models/run:predict", json=asked, timeout=180)
    assert response.status_code == 400
    assert re.search("Expecting tensor size: 3 but got: 2|non-rec", response.json()["error"])
    ids[1].append(0)  # beyond the length: no effect
    response = requests.post(f"{server.rest}/v1/models/run:predict", json=asked, timeout=180)
    assert len(response.json()["predictions"]) == 2, response.text


@pytest.mark.parametrize("client", [ask_grpc, ask_rest])
def test_a_single_passage_was_no_list(client):
    asked = client.split_inputs(["question=who ?", "passages=It is 3=3 ."])
    assert asked == {"question": ["who ?"], "passages": [["It is 3=3 ."]]}
    more = client.split_inputs(["question=who ?", "candidates=he", "candidates=she"])
    assert more == {"question": ["who ?"], "candidates": [["he", "she"]]}
    with pytest.raises(SystemExit, match="'who .' must be NAME=TEXT"):
        client.split_inputs(["who ?"])


def test_client_without_a_server_ends_in_one_line():
    port, _ = free_ports()
    for script, address in (("ask_grpc.py", ""), ("ask_rest.py", "http://")):
        command = [sys.executable, str(EXAMPLES / script), "run", "text=x", "--timeout=1"]
        command += [f"--server={address}127.0.0.1:{port}"]
        ended = warm.run(command, text=True)
        assert ended.returncode == 1 and ended.stdout == ""
        assert ended.stderr.splitlines()[-1].startswith(f"{script}: ")


def test_a_client_said_nothing_of_a_word_without_a_name_or_an_answer_that_is_no_json():
    for script in ("ask_grpc.py", "ask_rest.py"):
        command = [sys.executable, str(EXAMPLES / script), "run", "text"]
        ended = warm.run(command, text=True)
        assert ended.returncode == 1
        assert ended.stderr.splitlines()[-1].startswith(f"{script}: 'text' must be NAME=TEXT")
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.handle_request).start()
        with pytest.raises(ValueError, match="501: .*Unsupported method"):
            RestClient(f"http://127.0.0.1:{other.server_port}").predict("run", {"text": ["x"]})


def test_a_load_test_did_not_wait_for_the_server_that_was_started_beside_it(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    load, (port, _) = importlib.import_module("load"), free_ports()
    server = grpc.server(ThreadPoolExecutor(1))  # that knows no method

    def start():
        server.add_insecure_port(f"127.0.0.1:{port}")
        server.start()

    threading.Timer(3.0, start).start()
    with pytest.raises(grpc.RpcError) as failed:
        load.signatures_of(GrpcClient(f"127.0.0.1:{port}", timeout=60), "run")
    assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED
    server.stop(None)


def test_load_with_hostile_requests_disturbs_no_other(server):
    words = [BENCHMARKS / "load.py", "run", f"--server={server.grpc}"]
    words += ["--requests=400", "--hostile=0.2", f"--pid={server.pid}", "--timeout=60"]
    figures = json.loads(warm.printed(words))
    assert figures["answered"] + figures["refused"] == 400 and 10 < figures["refused"] < 90
    early, late = figures["memory_mib"]
    assert late < 1.2 * early
