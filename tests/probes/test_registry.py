"""Probes by name."""

import threading

import pytest

import chiplog
from chiplog.probes import registry
from tests.support.waiting import wait_for


class Counting:
    name = "count"
    interval = 0.005

    def __init__(self):
        self.asked = 0
        self.closed = threading.Event()

    def first(self):
        return [("model", {"name": "counter"})]

    def sample(self):
        self.asked += 1
        if self.asked % 2:
            raise OSError("odd")
        return [{"id": 0, "asked": self.asked}]

    def close(self):
        self.closed.set()


def test_an_unknown_probe_is_named_with_the_choices():
    """As a sink would be."""
    with pytest.raises(chiplog.ChiplogError, match="no probe named 'gpu'; available: nvidia, amd, cpu"):
        chiplog.init("p", sinks="none", probes="gpu")


def test_an_unknown_option_is_named():
    """With those there are."""
    with pytest.raises(chiplog.ChiplogError, match="no option 'every'; available: interval, gpus"):
        chiplog.init("p", sinks="none", probes={"nvidia": {"every": 1}})


def test_a_missing_package_is_named(monkeypatch):
    """With what to install."""
    monkeypatch.setitem(registry.PROBES, "nvidia", "no_such_module")
    with pytest.raises(chiplog.ChiplogError, match=r"pip install 'chiplog\[nvidia\]'"):
        registry.open_named("nvidia", {}, {})


def test_probes_come_from_the_environment_too(monkeypatch, tmp_path):
    """`CHIPLOG_PROBES=cpu`, like every setting."""
    monkeypatch.setenv("CHIPLOG_PROBES", "cpu")
    run = chiplog.init("p", sinks="none", dir=tmp_path)
    wait_for(lambda: "host/ram/used" in chiplog.read(run.dir).names())
    run.finish()


def test_names_and_objects_together(tmp_path):
    """A list may have both."""
    probe = Counting()
    run = chiplog.init("p", sinks="none", dir=tmp_path, probes=["cpu", probe])
    wait_for(lambda: {"count/0/asked", "host/cpu/util"} <= set(chiplog.read(run.dir).names()))
    run.finish()
    assert probe.closed.wait(5)


@pytest.mark.parametrize(
    "environ",
    [
        {"LOCAL_RANK": "1"},
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
    ],
    ids=["torchrun", "mpirun"],
)
def test_one_process_of_a_machine_samples_it(environ, monkeypatch, tmp_path):
    """With a journal on every rank, only the first of a machine asks for what is the machine's."""
    for name, text in {**environ, "CHIPLOG_RUN_ID": "run", "CHIPLOG_NO_REDUCE": "1"}.items():
        monkeypatch.setenv(name, text)
    before = {thread.name for thread in threading.enumerate()}
    run = chiplog.init("p", sinks="none", dir=tmp_path, probes="cpu", ranks="all")
    assert "chiplog-host" not in {thread.name for thread in threading.enumerate()} - before
    run.finish()
