"""From a run folder to a SavedModel that answers."""
