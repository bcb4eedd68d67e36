"""Turns the calls of an open run into records: its start, its rows, and what its metrics and summary mean."""
