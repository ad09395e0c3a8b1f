"""Pure functions on tensors; the only place where an attention weight is computed."""
