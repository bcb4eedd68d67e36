"""W&B's offline runs."""
