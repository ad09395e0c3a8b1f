"""One file a task: data, text, model, metrics and presets."""
