"""CoDA: the definition of its weights, and three implementations of their weighted sums."""
