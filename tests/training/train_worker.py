"""The command line as one worker runs it, under a test's conditions.

The first argument is JSON: `arguments` of the command; `quiet_gates`, to draw no noise for gates,
which every replica draws for its own rows; `mended`, false to leave Keras' `fit` as it is.
"""

import json
import sys
from typing import Any

import keras

from keras_quasiattn.attention import gated as gates
from keras_quasiattn.lab import cli
from keras_quasiattn.lab.training import trainer

asked: dict[str, Any] = json.loads(sys.argv[1])
if asked.get("quiet_gates"):
    gates.gumbel_noise = lambda seed, shape, draws=2: keras.ops.zeros((*shape, draws))
if not asked.get("mended", True):
    trainer.fit_among_workers = lambda model: None
cli.main(asked["arguments"])
