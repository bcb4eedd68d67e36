"""A small model that really trains, so that a first run has something to say."""
