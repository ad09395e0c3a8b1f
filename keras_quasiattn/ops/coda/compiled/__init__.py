"""CoDA in compiled CPU loops: NumPy arrays in and out, no backend. Needs Numba, so nothing imports it unasked."""
