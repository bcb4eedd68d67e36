"""The machine itself, through psutil: processors, memory, disks and network."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import psutil

from chiplog.probes.counters import Rates

INTERVAL = 5.0  # s

T = TypeVar("T")


def open_probe(environ: Mapping[str, str], *, interval: float = INTERVAL, path: str = ".") -> Cpu:  # noqa: ARG001
    """`path` is on the file system whose free space is reported."""
    return Cpu(interval, path=path)


class Cpu:
    """A probe: an event `host` per sample, with percent, bytes, and bytes per second; unsupported fields are absent."""

    name = "host"

    def __init__(self, interval: float = INTERVAL, *, path: str = ".") -> None:
        if not interval > 0:
            raise ValueError(f"interval is seconds between two samples, not {interval!r}")
        self.interval = interval
        self._path = path
        self._process = psutil.Process()
        self._rates = Rates()
        psutil.cpu_percent()  # each call covers the time since the previous one
        self._process.cpu_percent()

    def sample(self) -> list[dict[str, dict[str, float]]]:
        disk, network = _try(psutil.disk_io_counters), _try(psutil.net_io_counters)
        counters = {} if disk is None else {"disk_read": disk.read_bytes, "disk_write": disk.write_bytes}
        counters |= {} if network is None else {"rx": network.bytes_recv, "tx": network.bytes_sent}
        rates = self._rates.per_second(time.monotonic(), counters)
        memory, mine = _try(psutil.virtual_memory), _try(self._process.memory_info)
        space = _try(lambda: psutil.disk_usage(self._path))
        groups: dict[str, dict[str, float | None]] = {
            "cpu": {
                "util": _try(psutil.cpu_percent),
                "process": _try(self._process.cpu_percent),  # 100 is one core
                "threads": _try(self._process.num_threads),
                "load": _try(lambda: psutil.getloadavg()[0]),
            },
            "ram": {
                "used": None if memory is None else memory.total - memory.available,
                "free": None if memory is None else memory.available,
                "total": None if memory is None else memory.total,
                "process": None if mine is None else mine.rss,
            },
            "disk": {
                "read": rates.get("disk_read"),
                "write": rates.get("disk_write"),
                "free": None if space is None else space.free,
            },
            "network": {"rx": rates.get("rx"), "tx": rates.get("tx")},
        }
        supported = {
            group: {name: value for name, value in values.items() if value is not None}
            for group, values in groups.items()
        }
        return [{group: values for group, values in supported.items() if values}]


def _try(query: Callable[[], T]) -> T | None:
    try:
        return query()
    except (psutil.Error, OSError, NotImplementedError, RuntimeError, AttributeError):
        return None
