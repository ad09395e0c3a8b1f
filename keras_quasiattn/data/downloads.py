"""What TFDS would download for a data set, and whether it can."""

import socket
import threading
import urllib.parse
import urllib.request
from collections.abc import Iterable

import tensorflow_datasets as tfds

from keras_quasiattn.errors import UserError

_SECONDS = 5.0
_MEBIBYTE = 1 << 20
_PORTS = {"http": 80, "https": 443, "ftp": 21}


def pending_download(builder: tfds.core.DatasetBuilder) -> str:
    """What has to be downloaded before the data can be prepared, or nothing.

    Returns:
        Such as "trec (0.3 MiB from cogcomp.org)"; empty if the data are there, are generated or
        come from files that a user provides.
    """
    urls = builder.url_infos
    if builder.is_prepared() or not urls:
        return ""
    size = sum(int(url.size) for url in urls.values()) / _MEBIBYTE
    hosts = dict.fromkeys(urllib.parse.urlsplit(url).hostname for url in urls)
    return f"{builder.name} ({size:.1f} MiB from {', '.join(map(str, hosts))})"


def require_network(builder: tfds.core.DatasetBuilder) -> None:
    """Refuse to begin a download whose hosts do not answer; TFDS alone would try for minutes.

    Raises:
        UserError: none of the hosts, or of their proxies, answers within seconds.
    """
    asked = pending_download(builder)
    if asked and not _any_answers({_peer(url) for url in builder.url_infos}):
        raise UserError(
            f"cannot download {asked}: no answer within {_SECONDS:.0f} seconds; "
            "check the network, or use a file of your own"
        )


def _peer(url: str) -> tuple[str, int]:
    """The host and port to connect to for a URL: its own, or those of the proxy that is set."""
    parts = urllib.parse.urlsplit(url)
    host = parts.hostname or ""
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy and not urllib.request.proxy_bypass(host):
        parts = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
        host = parts.hostname or ""
    return host, parts.port or _PORTS.get(parts.scheme, 80)


def _any_answers(peers: Iterable[tuple[str, int]]) -> bool:
    answered = threading.Event()

    def connect(peer: tuple[str, int]) -> None:
        try:
            with socket.create_connection(peer, timeout=_SECONDS):
                answered.set()
        except OSError:
            pass
        finally:
            left.release()

    # Threads, because a timeout does not limit the time that it takes to find an address.
    peers = list(peers)
    left = threading.Semaphore(0)
    for peer in peers:
        threading.Thread(target=connect, args=(peer,), daemon=True).start()
    for _ in peers:
        if not left.acquire(timeout=_SECONDS) or answered.is_set():
            break
    return answered.is_set()
