"""Names that the command line completes without Keras: policies, strategies, search methods."""

POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
STRATEGIES = ("one", "mirrored", "multi-worker")
METHODS = ("random", "bayesian", "hyperband")
