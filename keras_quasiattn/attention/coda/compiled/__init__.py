"""CoDA in compiled CPU loops on NumPy arrays; a file named after a backend calls them from it.

It needs Numba and is imported only when the "compiled" implementation runs. `sums` is the way in,
`call` what the backends share, `passes` runs the loops of `attention`.
"""
