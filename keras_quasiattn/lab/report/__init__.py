"""Reports of training runs and exported models."""
