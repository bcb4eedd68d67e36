"""A directory of runs that several users share."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.faults import users
from tests.faults.users import ALICE, BOB
from tests.support.waiting import wait_for
from tests.views.web import stores


@pytest.fixture(scope="module")
def shared() -> Iterator[Path]:
    """One run of each, private; one of Alice's that all may read, and a private project of Bob's."""
    with users.shared_directory() as path:
        root = path / "runs"
        for owner, project, name in ((ALICE, "lm", "alices"), (BOB, "lm", "bobs"), (BOB, "hidden", "bobs-too")):
            stores.simple(root, name, project=project, steps=20)
            users.give(root / project / name, owner)
            (root / project / name).chmod(0o700)
        stores.simple(root, "alices-open", project="lm", steps=20)
        users.give(root / "lm" / "alices-open", ALICE)
        for one in (root / "lm" / "alices-open").rglob("*"):
            one.chmod(0o755 if one.is_dir() else 0o644)
        stores.simple(root, "alices-half", project="lm", steps=20)  # only its journals are private
        users.give(root / "lm" / "alices-half", ALICE)
        for one in (root / "lm" / "alices-half" / "journal").iterdir():
            one.chmod(0o600)
        for one in (root, root / "lm", root / "lm" / "alices-half", root / "lm" / "alices-open"):
            one.chmod(0o755)
        (root / "lm" / "alices-half" / "journal").chmod(0o755)
        os.chown(root / "hidden", BOB, BOB)
        (root / "hidden").chmod(0o700)
        yield path


@pytest.mark.parametrize(
    ("me", "mine", "theirs"),
    [
        (ALICE, ("alices", "alices-open", "alices-half"), ("bobs", "hidden")),
        (BOB, ("bobs", "bobs-too", "alices-open"), ("alices", "alices-half")),
    ],
)
def test_a_private_run_of_another_hides_nothing(
    shared: Path, me: int, mine: tuple[str, ...], theirs: tuple[str, ...]
) -> None:
    """`ls`, `show`, `compact` and `chiplog.runs` have what may be read, and name the owner of the rest."""
    root, other = str(shared / "runs"), ALICE + BOB - me
    code, out, err = users.chiplog(shared, me, "--dir", root, "ls")
    assert (code, err) == (0, "")
    rows = {words[1]: line for line in out.splitlines()[1:] if (words := line.split())}
    assert set(rows) == {*mine, *theirs}
    assert all("finished" in rows[one] for one in mine)
    assert all(f"not readable: belongs to user {other}" in rows[one] for one in theirs)

    code, out, err = users.chiplog(shared, me, "--dir", root, "watch", "--once")
    assert code == 0 and all(one in out for one in mine) and f"{theirs[0]} belongs to user {other}" in out

    code, out, err = users.chiplog(shared, me, "--dir", root, "ls", "--json", "--sort", "train/loss")
    listed = {one["id"]: one for one in json.loads(out)}
    assert (code, err) == (0, "") and set(listed) == {*mine, *theirs}
    assert {name for name, one in listed.items() if one["state"] == "unreadable"} == set(theirs)

    for text in (mine[0], f"lm/{mine[0]}", "latest"):
        code, out, err = users.chiplog(shared, me, "--dir", root, "show", text)
        assert code == 0 and "finished" in out and "denied" not in err
    code, out, err = users.chiplog(shared, me, "--dir", root, "show", theirs[0])
    assert code == 2 and f"not readable: belongs to user {other}" in err and "Traceback" not in err

    listing = "import chiplog, sys; runs = chiplog.runs(sys.argv[1]); print(*(run.id for run in runs)); print(runs)"
    code, out, err = users.run(shared, me, sys.executable, "-c", listing, root)
    assert (code, err) == (0, "")
    first, *rest = out.splitlines()
    assert set(first.split()) == set(mine)
    assert all(any(one in line and f"belongs to user {other}" in line for line in rest) for one in theirs)


def test_compacting_all_runs_leaves_those_of_others_alone(shared: Path) -> None:
    """Without a name, they are skipped; by name, the answer says whose they are."""
    root = str(shared / "runs")
    code, out, err = users.chiplog(shared, BOB, "--dir", root, "compact")
    assert (code, err) == (0, "") and "lm/bobs " in out and "alices" not in out
    code, out, err = users.chiplog(shared, BOB, "--dir", root, "compact", "alices-open")
    assert code == 2 and f"not writable: belongs to user {ALICE}" in err
    assert not (shared / "runs" / "lm" / "alices-open" / "parts").exists()


def test_no_other_user_learns_the_token(shared: Path) -> None:
    """While the browser starts, its command line names a file that only its owner can read; the page works again later."""
    home = shared / f"home-{ALICE}"
    browser = home / "browser"
    browser.write_text(f"#!/bin/sh\ntouch {home}/started\nfor second in $(seq 60); do sleep 1; done\n")
    browser.chmod(0o755)
    server = users.start(
        shared, ALICE, sys.executable, "-m", "chiplog", "ui", str(shared / "runs"), DISPLAY=":9", BROWSER=str(browser)
    )
    try:
        assert server.stdout is not None
        address, words = server.stdout.readline().strip(), server.stdout.readline()
        entry = Path(words.removeprefix("to enter, open ").partition(", which")[0])
        token = entry.read_text().partition("#token=")[2].partition('"')[0]
        wait_for((home / "started").exists)
        code, seen, err = users.run(shared, BOB, sys.executable, "-c", _LOOK)
        assert code == 0 and len(token) >= 24 and f"{browser}" in seen and f"{entry}" in seen, err
        assert token not in seen and token not in words + address
        code, _, err = users.run(shared, BOB, "cat", str(entry))
        assert code != 0 and "Permission denied" in err

        bearer = {"authorization": f"Bearer {token}"}
        listed = {run["id"]: run for run in json.loads(_get(f"{address}api/runs", bearer).read())["runs"]}
        assert listed["alices"]["state"] == "finished" and listed["bobs"]["reason"] == f"belongs to user {BOB}"
        with pytest.raises(HTTPError, match="403"):
            _get(f"{address}api/run?run={listed['bobs']['key']}", bearer)
        for _ in range(2):  # the file may be opened again, and the cookie stays
            cookie = _get(f"{address}api/enter", bearer).headers["set-cookie"]
            assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
            assert _get(f"{address}api/runs", {"cookie": cookie.partition(";")[0]}).status == 200
        with pytest.raises(HTTPError, match="401"):
            _get(f"{address}api/runs", {})
    finally:
        server.terminate()
        assert server.wait(20) == 0
        for process in _started(browser):
            os.kill(process, signal.SIGKILL)
        server.communicate()
    assert not entry.exists()


_LOOK = """
import glob
for file in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        print(open(file, "rb").read().replace(b"\\0", b" ").decode(errors="replace"))
    except OSError:
        pass
"""


def _get(address: str, headers: dict[str, str]) -> Any:
    return urlopen(Request(address, headers=headers), timeout=20)


def _started(program: Path) -> list[int]:
    """The processes that run a script."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if str(program).encode() in file.read_bytes():
                found.append(int(file.parent.name))
    return found
