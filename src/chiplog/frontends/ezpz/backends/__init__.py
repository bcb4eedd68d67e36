"""The backends of a tracker: built in, your own, and the runs of services."""
