"""The terminal: the runs of a directory and their charts, live, over any ssh."""
