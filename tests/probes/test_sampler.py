"""The thread that samples a probe."""

import threading
import time

import chiplog
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


def test_a_probe_that_fails_is_tried_again(capsys):
    """The failure is reported once; samples in between are recorded, and `first` comes first."""
    probe, events = Counting(), []
    sampler = Sampler(probe, lambda name, data: events.append((name, data)))
    sampler.start()
    wait_for(lambda: len(events) >= 3)
    sampler.stop()
    assert probe.closed.is_set()
    assert events[:3] == [
        ("model", {"name": "counter"}),
        ("count", {"id": 0, "asked": 2}),
        ("count", {"id": 0, "asked": 4}),
    ]
    assert capsys.readouterr().err.count("probe 'count' failed and will be retried: OSError: odd") == 1


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
