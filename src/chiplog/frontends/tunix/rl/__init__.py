"""Reinforcement learning: a cluster's metrics and traces."""
