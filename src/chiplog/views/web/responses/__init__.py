"""What the server sends: files in pieces, traces as they are computed, rows of the list of runs."""
