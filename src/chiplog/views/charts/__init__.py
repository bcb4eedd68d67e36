"""Charts: axes, curves, and their renderers, from matplotlib to plain text."""
