"""Imports the packages that draw reports, but only when something is drawn."""

import importlib
from types import ModuleType

from keras_quasiattn.errors import UserError


def needed(module: str) -> ModuleType:
    """Import a module of the extra `report`.

    Raises:
        UserError: it is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise UserError(
            f"{package} is not installed and reports need it: pip install 'keras-quasiattn[report]'"
        ) from error
