"""Delivery to services: `chiplog sync`, and the relay process that `init` starts."""
