"""Supervised fine-tuning: the metrics logger, and the metrics of a trainer."""
