"""What the verbs print for a file or another program: nothing is cut, however narrow the terminal that started them."""

from __future__ import annotations

import pytest

import chiplog

from .conftest import Cli

LONG = "a_rather_long_name_that_no_terminal_of_forty_columns_shows"
VERBS = (
    "ls", "ls --columns loss", "show latest", "show latest --ranks", "tail latest --once", "cat latest", "plot latest",
    "plot latest --smooth 0.6", "watch --once", "watch latest --once", "watch latest --once --panel overview",
    "watch latest --once --panel alerts", "trace latest", "trace latest --summary", "compare first second",
    "report latest --only text --show", "compact latest", "doctor", "export latest --to csv",
)  # fmt: skip


@pytest.fixture
def long_names() -> None:
    for name in ("first", "second"):
        with chiplog.init(
            f"project_{LONG}", f"{name}_{LONG}", id=name, config={LONG: LONG, "lr": 1e-3}, tags=[LONG], sinks="none"
        ) as run:
            for step in range(30):
                with run.span(f"span_{LONG}"):
                    run.log({f"train/{LONG}/accuracy": step / 30, f"train/{LONG}/loss": 1 / (1 + step)}, step=step)
            run.eval({f"{LONG}_accuracy": 0.5})
            run.alert(f"alert {LONG} {LONG}", text=LONG * 3)
            run.table(LONG, [{LONG: LONG * 2, "b": 1}])
            run.log({f"text/{LONG}": chiplog.Text(LONG * 3)})
            run.summary[LONG] = LONG


@pytest.mark.usefixtures("long_names")
def test_no_verb_cuts_what_it_prints_into_a_pipe(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only dots are those in the names of statistics, which a hint of `show --ranks` abbreviates."""
    monkeypatch.setenv("COLUMNS", "40")
    cut = {}
    for verb in VERBS:
        code, out, err = cli(*verb.split())
        assert code == 0 and out, (verb, err)
        lines = [line for line in (out + err).splitlines() if "…" in line.replace("…/", "")]
        if lines:
            cut[verb] = lines
    assert cut == {}
    for verb in ("tail latest --once", "watch latest --once", "trace latest", "report latest --only text --show"):
        assert LONG in cli(*verb.split())[1], verb
