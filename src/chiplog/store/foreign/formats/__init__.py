"""One file per format: finds its runs in a folder, and turns them into records."""
