"""What reports are drawn with, imported when something is drawn."""

import importlib
from types import ModuleType

from keras_quasiattn.errors import UserError


def needed(module: str) -> ModuleType:
    """The module.

    Raises:
        UserError: it is not installed; the message says what installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise UserError(
            f"{package} is not installed and reports need it: pip install 'keras-quasiattn[report]'"
        ) from error
