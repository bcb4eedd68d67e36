"""The lease: of several who could deliver, one does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from chiplog.sinks.shared import lease
from chiplog.sinks.shared.lease import Holder, Lease


def test_one_holds_it_and_the_other_waits(tmp_path: Path) -> None:
    """Until it is given back."""
    first, second = Lease(tmp_path / "csv.lease"), Lease(tmp_path / "csv.lease")
    assert first.hold() and not second.hold() and first.hold()
    first.release()
    assert second.hold()


def test_the_lease_of_a_process_that_is_gone_is_taken_over(tmp_path: Path) -> None:
    """At once on the same machine."""
    with subprocess.Popen(["true"]) as gone:
        pid = gone.pid
    (tmp_path / "csv.lease").write_bytes(msgspec.json.encode(Holder(os.uname().nodename, pid, 1, "gone")))
    assert Lease(tmp_path / "csv.lease").hold()


def test_the_lease_of_another_machine_expires(tmp_path: Path) -> None:
    """When nobody has touched it for a minute."""
    path = tmp_path / "csv.lease"
    path.write_bytes(msgspec.json.encode(Holder("elsewhere", 1, 1, "theirs")))
    assert not Lease(path).hold()
    os.utime(path, (1, 1))
    assert Lease(path).hold()


def test_a_lease_from_the_future_expires(tmp_path: Path) -> None:
    """Whoever made a run can date its files; a lease of next century blocks nobody."""
    path = tmp_path / "csv.lease"
    path.write_bytes(msgspec.json.encode(Holder("elsewhere", 1, 1, "theirs")))
    os.utime(path, (4e9, 4e9))
    assert Lease(path).hold()


def test_who_has_lost_it_notices_when_renewing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that two never deliver side by side for long."""
    path = tmp_path / "csv.lease"
    monkeypatch.setattr(lease, "RENEW", -1.0)
    first = Lease(path)
    assert first.hold()
    path.write_bytes(msgspec.json.encode(Holder(os.uname().nodename, os.getpid(), 0, "somebody else")))
    assert not first.hold()
    first.release()
    assert path.exists(), "what belongs to somebody else is not removed"
