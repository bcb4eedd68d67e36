"""Probes: data sources, each sampled on its own thread; one file each."""
