"""Ports for servers that a test starts."""

from __future__ import annotations

import random
import socket

# Below the ports that the kernel gives to clients, so that no connection takes one between this look and the server's start.
RANGE = range(20_000, 32_000)


def free_port() -> int:
    """A port on loopback that nobody listens on."""
    for port in random.SystemRandom().sample(RANGE, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("none of a hundred ports is free")
