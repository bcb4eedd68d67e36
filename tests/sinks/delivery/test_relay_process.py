"""The relay process: its orders come through a pipe."""

from __future__ import annotations

import subprocess
import sys

import msgspec

from chiplog.sinks.delivery.relay import DONE, Orders

READ = """
import os
from chiplog.sinks.delivery import relay_process
orders = relay_process.read_orders()
print(orders.run, orders.services, os.read(0, 100))
"""
ORDERS = Orders("runs/p/one", "r00000-a01", 1, 1, {"otel": {"secret": "größe"}}, "/")


def told(data: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-c", READ], input=data, capture_output=True, timeout=30, check=False)


def test_orders_are_the_first_line() -> None:
    """What follows stays in the pipe, where waiting for the end of the run finds it."""
    done = told(msgspec.json.encode(ORDERS) + b"\n" + DONE + b"\n")
    assert done.stdout.decode().strip() == f"runs/p/one {ORDERS.services} {DONE + bytes([10])!r}", done.stderr


def test_orders_that_are_cut_are_an_error() -> None:
    """As when the training process is killed while it starts its relay."""
    for data in (b"", msgspec.json.encode(ORDERS), msgspec.json.encode(ORDERS)[:20]):
        done = told(data)
        assert done.returncode == 1 and b"the training process ended before sending its configuration" in done.stderr
