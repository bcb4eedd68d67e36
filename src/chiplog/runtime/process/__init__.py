"""The training process: its environment, its output and its exit."""
