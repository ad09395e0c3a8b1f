"""The defaults of everything public are a promise.

Whoever changes one says so in CHANGELOG.md, and in public_defaults.json with this command:

python tests/test_public_defaults.py > tests/public_defaults.json
"""

import inspect
import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("public_defaults.json")


def public_defaults():
    """Return the defaults of every public function's and class's own arguments, as written."""
    from keras_quasiattn import layers, metrics, models, ops, report, serving, tuning
    from keras_quasiattn.lab import tasks, text, training

    found = {}
    for module in (layers, metrics, models, ops, report, serving, tasks, text, training, tuning):
        for name in module.__all__:
            one: Any = getattr(module, name)
            if callable(one):
                signature = inspect.signature(one.__init__ if inspect.isclass(one) else one)
                found[f"{module.__name__}.{name}"] = {
                    parameter.name: repr(parameter.default)
                    for parameter in signature.parameters.values()
                    if parameter.default is not parameter.empty
                }
    return found


def test_no_default_has_changed():
    assert public_defaults() == json.loads(FILE.read_text())


if __name__ == "__main__":
    print(json.dumps(public_defaults(), indent=1))
