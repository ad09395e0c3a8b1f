"""Measurements of the ops and layers; `python -m benchmarks.coda --help`."""
