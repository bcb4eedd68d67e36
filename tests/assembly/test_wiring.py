"""What a run is connected to: its sinks and services, its probes, and the step at which it continues."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import chiplog
from chiplog.assembly import wiring
from chiplog.core import records, settings
from chiplog.core.clock import RunClock
from chiplog.core.errors import BadSetting
from chiplog.core.identity import Identity
from chiplog.core.records import Plain
from chiplog.core.settings import Settings


def chosen(tmp_path: Path, **values: object) -> Settings:
    return settings.load(values, {}, tmp_path)


@pytest.fixture
def identity(tmp_path: Path) -> Identity:
    return Identity("p", "one", tmp_path / "runs" / "p" / "one", "one", "launch", cwd=str(tmp_path))


def test_services_are_left_to_the_relay(identity: Identity, tmp_path: Path) -> None:
    """Everything else is opened here, also objects of the user's own; without sinks there is nothing."""
    opened, services = wiring.open_sinks(chosen(tmp_path, sinks="csv,otel"), [], identity, {})
    assert list(opened) == ["csv"] and list(services) == ["otel"]
    assert wiring.open_sinks(chosen(tmp_path, sinks="none"), [], identity, {}) == ({}, {})


def test_an_option_of_a_service_is_checked_at_once(identity: Identity, tmp_path: Path) -> None:
    """Although the relay opens it."""
    with pytest.raises(BadSetting, match="no option 'colour'"):
        wiring.open_sinks(chosen(tmp_path, sinks={"otel": {"colour": "red"}}), [], identity, {})


@pytest.mark.parametrize(
    ("local", "environ", "count"),
    [(0, {}, 1), (1, {}, 0), (0, {"LOCAL_RANK": "1"}, 0), (0, {"SLURM_LOCALID": "2"}, 0), (0, {"LOCAL_RANK": "0"}, 1)],
)
def test_one_process_of_a_machine_samples_it(local: int, environ: dict[str, str], count: int, tmp_path: Path) -> None:
    """The first by whatever launched them."""
    probes = wiring.open_probes(chosen(tmp_path, probes="cpu"), local, environ)
    assert [probe.name for probe in probes] == ["host"] * count


@pytest.mark.parametrize(
    ("saved", "first"),
    [({}, 10), ({"highest": 4}, 10), ({"highest": 20}, 21), ({"highest": 20.5}, 21), ({"highest": math.inf}, 10),
     ({"highest": math.nan}, 10), ({"highest": "text"}, 10), ({"highest": None}, 10)],
)  # fmt: skip
def test_a_run_continues_after_its_highest_step(saved: dict[str, Plain], first: int, identity: Identity) -> None:
    """Of the journal or the saved state, which may hold anything."""
    with chiplog.init("p", id="one", dir=identity.dir.parents[1], sinks="none") as run:
        run.log({"x": 1}, step=9)
    assert wiring.next_step(identity, saved) == first


def test_the_attempt_record_has_every_field(identity: Identity) -> None:
    """So that none is missing in the first line of a journal."""
    fields = wiring.attempt_fields(identity, RunClock())
    assert fields.keys() == set(records.Attempt.__struct_fields__) - {"seq", "time", "format"}  # set for all
