"""The folder that a model server reads: model versions, `models.config` and batching parameters."""

import re
from pathlib import Path
from typing import Any, Final

from keras_quasiattn.errors import FileError, UserError
from keras_quasiattn.files import LOCK, locked, write

GRAPH: Final = "saved_model.pb"
MODELS: Final = "models.config"
BATCHING: Final = "batching_parameters.txt"
# The description of a version; TensorFlow Serving ignores it.
ABOUT: Final = Path("assets.extra") / "about.json"
# Folder of all models in the stock server image.
MOUNT: Final = "/models"
_HIGHEST = 2**63 - 1  # the largest version number that a server reads

_BATCHING = """\
# tensorflow_model_server --enable_batching --batching_parameters_file=THIS_FILE
max_batch_size { value: 64 }
# How long the first request of a batch waits for others.
batch_timeout_micros { value: 2000 }
# Requests beyond this many batches are refused, not queued.
max_enqueued_batches { value: 100 }
# Batches at a time default to the number of cores; to change it: num_batch_threads { value: 2 }
# Texts differ in length. The server pads with copies of a request's first element, \
which lengths leave out.
pad_variable_length_inputs: true
"""


def new_version(target: str | Path, name: str, version: int | None) -> Path:
    """Return the path of a new version of a model, `target/name/version`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UserError(
            f"the model's name is {name!r}: it must start with a letter or digit and contain only "
            "letters, digits, '.', '_' and '-'; --name sets it"
        )
    model = Path(target) / name
    if version is None:
        entries = model.iterdir() if model.is_dir() else ()
        version = 1 + max((int(one.name) for one in entries if one.name.isdecimal()), default=0)
    if not 1 <= version <= _HIGHEST:
        raise UserError(f"the version is {version}: it must be from 1 to {_HIGHEST}")
    final = model / str(version)
    if final.exists():
        raise UserError(f"{final} already exists: name another version, or none for the next one")
    return final


def highest_version(model: Path) -> Path | None:
    """Return `model` if it holds a SavedModel, else the highest version in it that does, if any."""
    if (model / GRAPH).is_file():
        return model
    entries = model.iterdir() if model.is_dir() else ()
    versions = [one for one in entries if one.name.isdecimal() and (one / GRAPH).is_file()]
    return max(versions, key=lambda one: int(one.name), default=None)


def read_models(target: Path) -> Any:
    """Read the `ModelServerConfig` in a folder of exported models; empty if there is none."""
    from google.protobuf import text_format
    from tensorflow_serving.config import model_server_config_pb2

    config = model_server_config_pb2.ModelServerConfig()
    file = target / MODELS
    if file.is_file():
        try:
            text_format.Parse(file.read_text(encoding="utf-8"), config)
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise UserError(
                f"{file} is not a valid ModelServerConfig ({error}): fix or delete it"
            ) from error
        if config.WhichOneof("config") == "custom_model_config":
            raise UserError(
                f"{file} has a custom_model_config: delete that or the file, because models are "
                "listed in a model_config_list"
            )
    return config


def _with_last(file: Path, config: Any) -> str:
    """Return a file's text with the last model of `config` added, and people's comments kept."""
    from google.protobuf import text_format

    whole = text_format.MessageToString(config)
    if not file.is_file():
        return whole
    before, brace, after = file.read_text(encoding="utf-8").rpartition("}")
    entry = text_format.MessageToString(config.model_config_list.config[-1], indent=4)
    text = f"{before.rstrip()}\n  config {{\n{entry}  }}\n{brace}{after}"
    try:  # the last brace may be another one
        return text if text_format.Parse(text, type(config)()) == config else whole
    except text_format.ParseError:
        return whole


def add_model(target: Path, name: str) -> None:
    """List a model in `models.config`, and write `batching_parameters.txt` if it is missing.

    A model that is already listed keeps all its settings.
    """
    try:
        with locked(target / LOCK):
            config = read_models(target)
            models = config.model_config_list.config
            if name not in [model.name for model in models]:
                models.add(name=name, base_path=f"{MOUNT}/{name}", model_platform="tensorflow")
                write(target / MODELS, _with_last(target / MODELS, config))
            if not (target / BATCHING).exists():
                write(target / BATCHING, _BATCHING)
    except OSError as error:
        raise FileError(f"cannot write {target}: {error.strerror or error}") from error
