"""Calls of compiled CPU loops on NumPy arrays; a file named after a backend calls them from it."""
