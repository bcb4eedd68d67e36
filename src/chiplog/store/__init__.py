"""The run directory: how it is laid out, written, compacted and read."""
