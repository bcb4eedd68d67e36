"""Perfetto's trace format: packets, and a run written as one trace."""
