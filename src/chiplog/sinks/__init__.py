"""Where records go: one file per destination."""
