"""The terminal UI: the runs of a directory and their charts, live, even over ssh."""
