"""The files of other trackers, read as runs."""
