"""The journal: its writer, its readers, and the cursors of sinks."""
