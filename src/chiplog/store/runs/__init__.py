"""The runs in a directory: finding and listing them, and telling their state."""
