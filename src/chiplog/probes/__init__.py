"""Sources that are sampled on a thread of their own; one file each."""
