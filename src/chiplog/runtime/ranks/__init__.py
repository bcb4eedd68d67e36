"""The ranks of a launch: which one this is, who keeps the run, and statistics across all of them."""
