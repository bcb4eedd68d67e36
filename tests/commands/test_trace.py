"""`chiplog trace`."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import chiplog

from .conftest import Cli


@pytest.fixture
def traced(tmp_path: Path) -> str:
    """Two runs with spans, the second slower; in `runs`."""
    for name, seconds in (("first", 0.001), ("second", 0.05)):
        with chiplog.init("tiny-lm", id=name, sinks="none") as run:
            for step in range(4):
                run.begin_step(step)
                with run.span("step"), run.span("forward", devices="gpu0") as span:
                    time.sleep(seconds)
                    span.async_end(1)
    return "second"


def test_without_options_it_says_where_the_time_went(cli: Cli, traced: str) -> None:
    """A table, a flame view of a typical step, and its critical path."""
    code, out, _ = cli("trace", traced)
    assert code == 0 and "span     on      count" in out and "a typical step" in out and "critical path:" in out
    assert "[forward" in out and "gpu0" in out


def test_a_step_can_be_chosen(cli: Cli, traced: str) -> None:
    """And one that is not there is named."""
    assert "step 2:" in cli("trace", traced, "--step", "2")[1]
    for more in ((), ("-o", "t.svg")):
        code, out, err = cli("trace", traced, "--step", "77", *more)
        assert code == 2 and "step 77 has no spans" in err and out == ""
    assert not Path("t.svg").exists()
    for name in ("t.pftrace", "t.json"):
        code, _, err = cli("trace", traced, "--step", "2", "-o", name)
        assert code == 2 and f"{name} holds all steps" in err and not Path(name).exists()


def test_a_rank_that_is_not_there_is_named(cli: Cli, traced: str) -> None:
    """Instead of an empty trace; one that is there is shown."""
    assert cli("trace", traced, "--rank", "0") == cli("trace", traced)
    for more in ((), ("-o", "t.pftrace"), ("-o", "t.json"), ("-o", "t.svg"), ("--against", "first")):
        code, out, err = cli("trace", traced, "--rank", "5", *more)
        assert code == 2 and "second has no rank 5; available: 0" in err and out == ""
    assert not list(Path().glob("t.*"))


def test_a_trace_is_written_by_the_name_of_the_file(cli: Cli, traced: str, tmp_path: Path) -> None:
    """Perfetto, Chrome's JSON, or a picture."""
    for name in ("t.pftrace", "t.json", "t.svg"):
        code, out, _ = cli("trace", traced, "-o", name)
        assert code == 0 and name in out and (tmp_path / name).stat().st_size > 500
    assert (tmp_path / "t.pftrace").read_bytes()[:1] == b"\x0a"
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert (tmp_path / "t.svg").read_text().startswith("<svg")
    assert not list(tmp_path.glob(".*.new"))
    code, _, err = cli("trace", traced, "-o", "nowhere/t.pftrace")
    assert code == 2 and "cannot write t.pftrace: nowhere is not a directory" in err


def test_another_run_is_compared(cli: Cli, traced: str) -> None:
    """The biggest change first, slower with a plus."""
    code, out, _ = cli("trace", traced, "--against", "first")
    first = out.splitlines()[1].split()
    assert code == 0 and first[0] == "forward" and first[4].startswith("+")
    assert "+0" not in (same := cli("trace", traced, "--against", traced)[1]) and "-0" not in same
    assert "critical path" not in out and "critical path" in cli("trace", traced, "--against", "first", "--summary")[1]


def test_a_run_without_spans_says_how_to_get_some(cli: Cli, path: Path) -> None:
    code, out, _ = cli("trace", path)
    assert code == 0 and "run.span" in out


def test_imports_belong_into_perfettos_format(cli: Cli, traced: str, tmp_path: Path) -> None:
    """And a file that is not a trace is reported."""
    (tmp_path / "bad.json").write_text("[]x")
    assert cli("trace", traced, "-o", "t.json", "--add", "bad.json")[0] == 2
    code, _, err = cli("trace", traced, "-o", "t.pftrace", "--add", "bad.json")
    assert code == 2 and "bad.json is not a torch.profiler or jax.profiler trace" in err
