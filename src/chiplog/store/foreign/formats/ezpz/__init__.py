"""ezpz: the lines of its history, and its datasets."""
