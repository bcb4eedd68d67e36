"""What other trackers keep while they are offline: an archive per run, or the folder that it is made of."""
