"""Who may use W&B: a key that is missing or wrong is said once, and nobody waits for it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

import chiplog
from chiplog.core.errors import Refused
from chiplog.sinks.delivery import sync as sync_
from chiplog.sinks.wandb import login
from tests.sinks.wandb.server import Server
from tests.support.wandb_runs import KEY, environ, relay_pids, server, sync, train

__all__ = ["server"]

SOON = 5.0  # s

TRAINING = """
from chiplog.core import messages
said, say = [], messages.say
messages.say = lambda text: (said.append(text), say(text))
run = init(); run.log({{"loss": 1.0}}, step=0)
{0}
began = time.monotonic()
done = run.finish()
print(time.monotonic() - began)
assert not done and {1!r} in done.missing["wandb"] and "chiplog sync" in done.missing["wandb"], done.missing
"""
UNTIL_SAID = """
until = time.monotonic() + 60
while not any("sink 'wandb' failed" in text for text in said):  # which the training says after two looks at its relay
    assert time.monotonic() < until, run.health()
    time.sleep(0.02)
"""


@pytest.mark.parametrize("known", [False, True])
def test_without_a_key_the_end_waits_for_nothing(server: Server, known: bool) -> None:
    """Known at the end or before it: the reason is said once, `finish` returns, and with a key `sync` completes it."""
    world = environ(server)
    del world["WANDB_API_KEY"]
    done = train(TRAINING.format(UNTIL_SAID if known else "", "WANDB_API_KEY"), world)
    assert float(done.stdout) < SOON
    assert done.stderr.count("WANDB_API_KEY") == 1 and "WANDB_MODE=offline" in done.stderr
    assert not relay_pids(Path("runs/tiny-lm/run")) and not server.asked
    later = sync(environ(server))
    assert later.returncode == 0, later.stdout + later.stderr
    assert server.runs["run"].series("loss") == [(0, 1.0)]


@pytest.mark.parametrize(("status", "word"), [(401, "does not know the key"), (403, "no right")])
def test_a_key_that_is_refused_is_not_waited_for(server: Server, status: int, word: str) -> None:
    """The server says no: once it has, the end of the run comes at once, also with the SDK in this process."""
    server.weather = status
    for attempt, relay in enumerate(("auto", "thread")):
        code = TRAINING.format(UNTIL_SAID, word).replace("init()", f"init(relay={relay!r})")
        done = train(code, environ(server))
        assert float(done.stdout) < SOON
        assert done.stderr.count(word) == 1, done.stderr
        assert server.runs == {}, attempt
    server.weather = None
    assert sync(environ(server)).returncode == 0
    assert server.runs["run"].series("loss") == [(0, 1.0)] * 2


def test_a_key_that_comes_later_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What is refused for want of one is looked at again while the training runs."""
    monkeypatch.setattr(sync_, "BACK_OFF", (0.01, 0.02))
    with chiplog.init("tiny-lm", id="run", dir=tmp_path / "runs", sinks="none") as run:
        run.log({"loss": 1.0})
    world = {"HOME": str(tmp_path)}
    until = time.monotonic() + 60
    states: list[str] = []

    def tell(health: sync_.Health) -> None:
        states.append(health["wandb"]["state"])
        world["WANDB_MODE"] = "disabled"  # which needs none

    made = sync_.Sync(run.dir, {"wandb": {}}, world, str(tmp_path))
    left = made.run(lambda: states[-1:] == ["ok"] or time.monotonic() > until, 10, tell)
    assert states[0] == "failing" and left == {}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".netrc", f"machine api.wandb.ai login user password {KEY}"),
        ("keys/netrc", f"machine api.wandb.ai login user password {KEY}"),
        (".config/wandb/settings", f"[default]\napi_key = {KEY}"),
    ],
)
def test_every_place_of_a_key_is_known(tmp_path: Path, file: str, text: str) -> None:
    """So that nobody who has logged in is turned away before W&B's own package has been asked."""
    world = {"HOME": str(tmp_path), "NETRC": str(tmp_path / "keys/netrc") if file.startswith("keys") else ""}
    with pytest.raises(Refused, match="WANDB_API_KEY"):
        login.check(world, {})
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / file).write_text(text)
    (tmp_path / file).chmod(0o600)
    login.check(world, {})
    login.check({}, {"mode": "offline"})
    login.check({}, {"settings": {"api_key": KEY}})


def test_a_mode_that_wandb_does_not_have_is_named_with_the_choices() -> None:
    """And not taken for a key that is missing."""
    with pytest.raises(
        Refused, match=r"WANDB_MODE = 'bogus' is not one of its modes: online, offline, disabled, shared"
    ):
        login.check({"WANDB_MODE": "bogus"}, {})
    with pytest.raises(Refused, match=r"^cannot use W&B: mode = 'bogus'"):
        login.check({"WANDB_API_KEY": KEY}, {"mode": "bogus"})
    login.check({"WANDB_MODE": "dryrun"}, {})
    login.check({"WANDB_MODE": "bogus", "WANDB_DISABLED": "true"}, {})
