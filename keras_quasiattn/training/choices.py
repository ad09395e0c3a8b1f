"""The names of precision policies and strategies, without importing Keras."""

POLICIES = ("float32", "mixed_float16", "mixed_bfloat16")
STRATEGIES = ("one", "mirrored", "multi-worker")
