"""Journals that keep nothing, or keep it in memory until it is decided who writes the run."""
