"""The console: one line per step for the person who is watching."""
