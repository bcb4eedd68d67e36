"""What several sinks share: append-only files, joined rows, names."""
