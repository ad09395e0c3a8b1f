"""Benchmarks of the ops and layers; see `python -m benchmarks.coda --help`."""
