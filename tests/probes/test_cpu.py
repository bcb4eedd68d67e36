"""The probe of the machine, on this one."""

import os
import time

import psutil
import pytest

from chiplog.probes.cpu import open_probe


@pytest.fixture
def sample():
    probe = open_probe({})
    probe.sample()
    began = time.process_time()
    while time.process_time() - began < 0.05:
        pass
    (found,) = probe.sample()
    return found


def test_processors(sample):
    """Percent of the machine and of this process, its threads, and the load."""
    assert 0 <= sample["cpu"]["util"] <= 100
    assert 0 < sample["cpu"]["process"] <= 100 * (os.cpu_count() or 1) + 50
    assert sample["cpu"]["threads"] >= 1 and sample["cpu"]["load"] >= 0


def test_memory(sample):
    """Bytes; used and free are all there is."""
    ram = sample["ram"]
    assert ram["used"] + ram["free"] == ram["total"] == psutil.virtual_memory().total
    assert 0 < ram["process"] < ram["total"]


def test_disk_and_network(sample):
    """Bytes a second since the sample before, and the space that is left."""
    assert sample["disk"]["free"] > 0
    assert all(rate >= 0 for rate in sample.get("network", {}).values())


def test_what_cannot_be_asked_is_absent(monkeypatch):
    """A container without disks, say."""
    monkeypatch.setattr(psutil, "disk_io_counters", lambda: None)
    monkeypatch.setattr(psutil, "net_io_counters", lambda: (_ for _ in ()).throw(OSError("no /proc/net")))
    probe = open_probe({}, path="/no/such/place")
    probe.sample()
    (found,) = probe.sample()
    assert "disk" not in found and "network" not in found
    assert found["ram"]["total"] > 0


def test_rates_are_by_the_time_between(monkeypatch):
    """1,000 bytes in two seconds are 500 a second."""
    counters = iter([(0, 0), (1000, 4000)])
    clock = iter([10.0, 12.0])

    class Io:
        def __init__(self, read, write):
            self.read_bytes, self.write_bytes = read, write

    monkeypatch.setattr(psutil, "disk_io_counters", lambda: Io(*next(counters)))
    monkeypatch.setattr("chiplog.probes.cpu.time.monotonic", lambda: next(clock))
    probe = open_probe({})
    probe.sample()
    (found,) = probe.sample()
    assert (found["disk"]["read"], found["disk"]["write"]) == (500.0, 2000.0)
