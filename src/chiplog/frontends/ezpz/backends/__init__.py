"""The backends of a tracker: built in, your own, and on other ranks."""
