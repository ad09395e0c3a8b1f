"""From a task to a run folder: strategies, precision, checkpoints, resume."""
