"""Stored spans, and queries over them."""
