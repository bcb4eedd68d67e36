"""Probes by name, and the thread that samples them."""

import threading
import time

import pytest

import chiplog
from chiplog.core.protocols import Probe
from chiplog.probes import registry
from chiplog.probes.counters import Rates
from chiplog.probes.sampler import Sampler
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
    with pytest.raises(chiplog.ChiplogError, match="no probe named 'gpu'; there are: nvidia, amd, cpu"):
        chiplog.init("p", sinks="none", probes="gpu")


def test_an_unknown_option_is_named():
    """With those there are."""
    with pytest.raises(chiplog.ChiplogError, match="no option 'every'; it has: interval, gpus"):
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


def test_a_probe_that_fails_is_tried_again(capsys):
    """Said once; what it says in between is recorded, what it says first comes first."""
    probe, said = Counting(), []
    assert isinstance(probe.name, str) and Probe
    sampler = Sampler(probe, lambda name, data: said.append((name, data)))
    sampler.start()
    wait_for(lambda: len(said) >= 3)
    sampler.stop()
    assert probe.closed.is_set()
    assert said[:3] == [
        ("model", {"name": "counter"}),
        ("count", {"id": 0, "asked": 2}),
        ("count", {"id": 0, "asked": 4}),
    ]
    assert capsys.readouterr().err.count("probe 'count' failed and will be tried again: OSError: odd") == 1


def test_rates_need_two_looks_and_time_between():
    """Nothing is divided by zero, and a new counter has no past."""
    rates = Rates()
    assert rates.per_second(1.0, {"a": 5}) == {}
    assert rates.per_second(1.0, {"a": 6}) == {}
    assert rates.per_second(3.0, {"a": 10, "b": 1}) == {"a": 2.0}


def test_a_sample_that_hangs_does_not_hold_the_run(tmp_path):
    """The end of the run waits a second for it, and no longer."""
    let_go = threading.Event()

    class Hanging:
        name, interval = "hanging", 0.01

        def sample(self):
            let_go.wait(60)
            return []

    run = chiplog.init("p", sinks="none", dir=tmp_path, probes=[Hanging()])
    run.log({"loss": 1.0})
    began = time.monotonic()
    assert run.finish()
    assert time.monotonic() - began < 10
    let_go.set()
