"""CoDA: its weights, their definition, and the ways to compute their sums."""
