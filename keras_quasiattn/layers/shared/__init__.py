"""What layers are made of: base classes, checks, projections, and the names by which attentions are chosen."""
