"""Download and write the data of TFDS builders."""

import contextlib
import io
import socket
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Collection
from pathlib import Path

import requests
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_quasiattn.errors import FileError, UserError, first_line
from keras_quasiattn.files import LOCK, locked

_SECONDS = 5.0
_PORTS = {"http": 80, "https": 443, "ftp": 21}


def prepare(
    make_builder: Callable[[], tfds.core.DatasetBuilder], data_dir: str | Path
) -> tfds.core.DatasetBuilder:
    """Write a TFDS builder's data if they are missing, either completely or not at all; return it.

    If several processes need the same data at once, one of them writes and the others wait.
    `make_builder` is called again when no other process is writing, because a builder inspects the
    disk at creation; it keeps its data in `data_dir`.

    Raises:
        UserError: the folder cannot be written, the disk is full, or the data cannot be downloaded.
    """
    try:
        if (builder := make_builder()).is_prepared():  # works in a read-only folder too
            return builder
        Path(data_dir).mkdir(parents=True, exist_ok=True)
        with locked(Path(data_dir) / LOCK):
            builder = make_builder()
            # TFDS itself would try for minutes.
            pending = pending_download(builder)
            if pending and not _any_answers({_host_and_port(url) for url in builder.url_infos}):
                raise UserError(
                    f"cannot download {pending}: no answer within {_SECONDS:.0f} seconds; "
                    "check the network, or use a file of your own"
                )
            tfds.disable_progress_bar()
            # TFDS would print that all sizes are unknown.
            with contextlib.redirect_stdout(io.StringIO()):
                builder.download_and_prepare()
    except requests.RequestException as error:  # a kind of OSError
        raise UserError(f"cannot download {builder.name}: {first_line(error)}") from error
    except (OSError, tf.errors.OpError) as error:
        reason = getattr(error, "strerror", None) or first_line(error)
        raise FileError(f"cannot write the data to {data_dir}: {reason}") from error
    return builder


class GeneratedTexts(tfds.core.ShardBasedBuilder, skip_registration=True):  # type: ignore[call-arg]
    """Base class of data sets of generated texts, which are already in random order."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    DESCRIPTION: str
    KEYS: tuple[str, ...]  # of the texts; a model learns the second from the first

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=self.DESCRIPTION,
            features=tfds.features.FeaturesDict(dict.fromkeys(self.KEYS, tfds.features.Text())),
            supervised_keys=self.KEYS[:2],
            disable_shuffling=True,
        )


def pending_download(builder: tfds.core.DatasetBuilder) -> str:
    """Describe the download that is needed, such as "trec (0.3 MiB from cogcomp.org)".

    The text is empty if the data are prepared, are generated or come from the user's files.
    """
    urls = builder.url_infos
    if builder.is_prepared() or not urls:
        return ""
    mebibytes = sum(int(url.size) for url in urls.values()) / 2**20
    hosts = dict.fromkeys(urllib.parse.urlsplit(url).hostname for url in urls)
    return f"{builder.name} ({mebibytes:.1f} MiB from {', '.join(map(str, hosts))})"


def _host_and_port(url: str) -> tuple[str, int]:
    """Return the host and port to connect to for a URL: its proxy's, if one is set."""
    parts = urllib.parse.urlsplit(url)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(parts.hostname or ""):
        parts = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
    return parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 80)


def _any_answers(hosts: Collection[tuple[str, int]]) -> bool:
    answered = threading.Event()
    tried = threading.Semaphore(0)

    def connect(host: tuple[str, int]) -> None:
        try:
            with contextlib.suppress(OSError), socket.create_connection(host, timeout=_SECONDS):
                answered.set()
        finally:
            tried.release()

    # Threads, because the timeout does not limit address lookup.
    for host in hosts:
        threading.Thread(target=connect, args=(host,), daemon=True).start()
    for _ in hosts:
        if not tried.acquire(timeout=_SECONDS) or answered.is_set():
            break
    return answered.is_set()
