"""Import packages that an extra installs on first use; name the extra if one is missing."""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from keras_quasiattn.errors import UserError


class MissingPackageError(UserError, ModuleNotFoundError):
    """A package that an extra installs is missing; the message says how to install it."""


@contextlib.contextmanager
def needs(extra: str) -> Iterator[None]:
    """Turn a failed import in the `with` block into an error that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package == __name__.partition(".")[0]:
            raise
        raise MissingPackageError(
            f"{package} is not installed: pip install 'keras-quasiattn[{extra}]'", name=package
        ) from error


def require(module: str, extra: str) -> ModuleType:
    """Import a module that needs an extra."""
    with needs(extra):
        imported = importlib.import_module(module)
    return imported


def lazy_attributes(
    package: str, homes: Mapping[str, str], extra: str, **other_extras: str
) -> Callable[[str], Any]:
    """Return a `__getattr__` for `package` that imports each name from its module on first use.

    Args:
        package: full name of the package.
        homes: for each public name the module that defines it, relative to the package or, if it is
            in another package, in full. The import contract ignores such a lazy import.
        extra: the extra that the modules need.
        **other_extras: the extra of each name whose module needs another one.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = homes[name] if "." in homes[name] else f"{package}.{homes[name]}"
        return getattr(require(module, other_extras.get(name, extra)), name)

    return get
