"""The background thread of a run, its tasks, and the processes beside it."""
