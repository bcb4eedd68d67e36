"""W&B's own client in the process of a script."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace

import pytest

from chiplog.frontends.kempnerforge import wandb_client
from chiplog.frontends.kempnerforge.wandb_client import Client


class Native:
    """W&B's object of a run, as far as rows go."""

    id, offline, disabled = "its-id", False, False

    def __init__(self, step: int = 0, starting_step: int = 0) -> None:
        self.step, self.starting_step = step, starting_step
        self.rows: list[tuple[dict[str, object], int]] = []

    def log(self, metrics: dict[str, object], step: int) -> None:
        self.rows.append((metrics, step))


@pytest.fixture(autouse=True)
def no_wandb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "wandb", raising=False)


def test_a_script_uses_wandb_if_it_has_imported_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that failed to be imported, or a folder of that name, is not it; a stand-in is."""
    assert not wandb_client.is_imported() and not wandb_client.is_stand_in() and not wandb_client.is_wanted()
    module = ModuleType("wandb")
    module.__spec__ = ModuleSpec("wandb", None)
    monkeypatch.setitem(sys.modules, "wandb", module)
    assert not wandb_client.is_imported()
    module.init = print  # type: ignore[attr-defined]
    assert wandb_client.is_imported() and wandb_client.is_wanted() and not wandb_client.is_stand_in()
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace())
    assert wandb_client.is_imported() and wandb_client.is_stand_in()


def test_the_setting_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an import."""
    monkeypatch.setenv("CHIPLOG_RELAY", "thread")
    assert wandb_client.is_wanted() and not wandb_client.is_imported()


@pytest.mark.parametrize(("step", "starting"), [(5, 0), (0, 5), (5, 5)])
def test_a_row_before_the_newest_is_not_sent(step: int, starting: int) -> None:
    """W&B would drop it with a warning for each; the first step that it takes is returned."""
    native = Native(step, starting)
    client = Client(native)
    assert client.log({"x": 1}, 4) == 5 and native.rows == []
    assert client.log({"x": 1}, 5) is None and native.rows == [({"x": 1}, 5)]


def test_only_a_run_that_is_online_sends() -> None:
    """Its rows may be missing at the server if this process is killed."""
    assert Client(Native()).sends and Client(Native()).id == "its-id"
    for attribute in ("offline", "disabled"):
        native = Native()
        setattr(native, attribute, True)
        assert not Client(native).sends
