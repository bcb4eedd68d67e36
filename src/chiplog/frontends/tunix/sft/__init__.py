"""Supervised fine-tuning: the metrics logger, and a trainer's metrics."""
