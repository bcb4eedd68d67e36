"""The background thread of a run, forks, and processes next to the training process."""
