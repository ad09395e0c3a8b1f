"""Searches of a task's options."""
