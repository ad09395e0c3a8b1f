"""Names that the command line completes: policies, strategies, methods of search; without Keras."""

POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
STRATEGIES = ("one", "mirrored", "multi-worker")
METHODS = ("random", "bayesian", "hyperband")
