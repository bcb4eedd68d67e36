"""Backends in the shapes people already have, each made a sink."""
