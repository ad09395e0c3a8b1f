"""Run the command line as one worker, under a test's conditions.

The first argument is JSON: `arguments` of the command; `quiet_gates`, to draw no noise for gates,
which every replica draws for its own rows.
"""

import json
import sys
from typing import Any

import keras

from keras_quasiattn.attention import gated as gates
from keras_quasiattn.lab import cli

asked: dict[str, Any] = json.loads(sys.argv[1])
if asked.get("quiet_gates"):
    gates.gumbel_noise = lambda seed, shape, draws=2: keras.ops.zeros((*shape, draws))
cli.main(asked["arguments"])
