"""The web page: a read-only server for all runs under a directory, and the page it serves."""
