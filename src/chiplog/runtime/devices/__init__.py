"""The accelerator this process computes on: memory, values and work that are still on it."""
