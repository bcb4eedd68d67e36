"""Reinforcement learning: the metrics and traces of a cluster."""
