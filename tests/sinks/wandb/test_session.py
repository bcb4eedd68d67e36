"""`resume="must"` and `"never"` of the wandb sink: what is asked for is met, or refused once with the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.sinks.wandb.server import Remote, Server
from tests.support.wandb_runs import environ, train

pytestmark = pytest.mark.timeout(300)

CODE = """
run = init(relay={relay!r}, sinks={{"wandb": {about!r}}})
for step in range({first}, {first} + 3):
    run.log({{"loss": step / 7}}, step=step)
done = run.finish(timeout=60)
print(bool(done), flush=True)
"""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.stop()


def go(server: Server, relay: str, first: int = 0, **about: object) -> tuple[str, str]:
    done = train(CODE.format(relay=relay, about=about, first=first), environ(server))
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("relay", ["auto", "thread"])
def test_a_run_that_must_be_there_and_is_not_is_refused(server: Server, relay: str) -> None:
    """No run is made at W&B, one line has the reason, and the end of the run does not wait."""
    complete, said = go(server, relay, id="gone", resume="must")
    assert complete == "False" and server.runs == {}
    assert said.count("W&B has no run gone, and resume='must' asks for one") == 1
    assert "retrying" not in said.replace("not retrying", "")


@pytest.mark.parametrize("relay", ["auto", "thread"])
def test_a_run_that_must_not_be_there_and_is_stays_as_it_is(server: Server, relay: str) -> None:
    """No row is appended to it."""
    server.runs["taken"] = Remote("taken")
    complete, said = go(server, relay, id="taken", resume="never")
    assert complete == "False" and server.runs["taken"].lines == []
    assert said.count("W&B has a run taken already, and resume='never' asks for a new one") == 1


def test_terms_that_are_met_hold_for_the_first_start_only(server: Server) -> None:
    """A run that was new goes on with its next attempt, and one that had to be there is gone on with."""
    assert go(server, "auto", id="mine", resume="never")[0] == "True"
    assert go(server, "auto", 3, id="mine", resume="never")[0] == "True"
    assert [step for step, _ in server.runs["mine"].series("loss")] == [*range(6)]
    server.runs["theirs"] = Remote("theirs")
    assert go(server, "thread", 6, id="theirs", resume="must")[0] == "True"
    assert list(server.runs) == ["mine", "theirs"]


def test_the_variable_of_wandb_counts_too(server: Server) -> None:
    """`WANDB_RESUME` where the option is not given."""
    done = train(CODE.format(relay="auto", about={"id": "gone"}, first=0), environ(server, WANDB_RESUME="must"))
    assert done.stdout.strip() == "False" and server.runs == {}
