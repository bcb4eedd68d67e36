"""What one run holds: its segments, read from parts and the tails beyond them, and all but points and spans."""
