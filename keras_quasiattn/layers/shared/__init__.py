"""Building blocks of the layers: base classes, checks, projections and the mechanism registry."""
