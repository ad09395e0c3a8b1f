"""What `benchmarks/accelerator.py` runs on a device: checks of every attention, then times."""
