"""Download and write the data of TFDS builders."""

import contextlib
import io
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import requests
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError
from keras_quasiattn.files import locked

_SECONDS = 5.0


def prepare(
    make_builder: Callable[[], tfds.core.DatasetBuilder], data_dir: str | Path
) -> tfds.core.DatasetBuilder:
    """Write a TFDS builder's data if they are missing, either completely or not at all.

    If several processes need the same data at once, one of them writes and the others wait.

    Args:
        make_builder: creates the builder, which inspects the disk, so it may be called twice.
        data_dir: the folder in which the builder keeps its data.

    Raises:
        UserError: the folder cannot be written, the disk is full, or the data cannot be downloaded.
    """
    try:
        if (builder := make_builder()).is_prepared():  # works in a read-only folder too
            return builder
        Path(data_dir).mkdir(parents=True, exist_ok=True)
        with locked(Path(data_dir) / ".lock"):
            builder = make_builder()
            _require_network(builder)
            tfds.disable_progress_bar()
            # TFDS would print that all sizes are unknown.
            with contextlib.redirect_stdout(io.StringIO()):
                builder.download_and_prepare()
    except requests.RequestException as error:  # a kind of OSError
        raise UserError(f"cannot download {builder.name}: {str(error).splitlines()[0]}") from error
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "strerror", None) or str(error).splitlines()[0]
        raise UserError(f"cannot write the data to {data_dir}: {reason}") from error
    return builder


def pending_download(builder: tfds.core.DatasetBuilder) -> str:
    """Describe the download that the data need, such as "trec (0.3 MiB from cogcomp.org)".

    Returns "" if the data are prepared, are generated or come from the user's files.
    """
    urls = builder.url_infos
    if builder.is_prepared() or not urls:
        return ""
    mebibytes = sum(int(url.size) for url in urls.values()) / 2**20
    hosts = dict.fromkeys(urllib.parse.urlsplit(url).hostname for url in urls)
    return f"{builder.name} ({mebibytes:.1f} MiB from {', '.join(map(str, hosts))})"


def _require_network(builder: tfds.core.DatasetBuilder) -> None:
    """Raise an error if no host answers within seconds; TFDS itself would try for minutes."""
    pending = pending_download(builder)
    if pending and not any(map(_answers, builder.url_infos)):
        raise UserError(
            f"cannot download {pending}: no answer within {_SECONDS:.0f} seconds; "
            "check the network, or use a file of your own"
        )


def _answers(url: str) -> bool:
    try:
        requests.head(url, timeout=_SECONDS)  # through a proxy if one is set
    except (requests.ConnectionError, requests.Timeout):
        return False
    except requests.RequestException:  # such as a scheme that only TFDS knows
        pass
    return True
