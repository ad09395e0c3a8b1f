"""CoDA in compiled CPU loops on NumPy arrays, without a Keras backend.

It needs Numba and is imported only when the "compiled" implementation runs.
"""
