"""Where the time went: summaries, flame views, and trace files."""
