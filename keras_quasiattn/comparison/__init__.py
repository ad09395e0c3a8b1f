"""Compares attentions: the same model, options, rates and seeds, and a verdict with an interval."""
