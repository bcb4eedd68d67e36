"""What one run holds: its parts and the tails beyond them. No other module walks the segments of a run."""
