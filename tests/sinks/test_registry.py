"""The names of sinks, and what is known about a service without importing its package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import chiplog
from chiplog import sinks
from chiplog.core.errors import BadSetting, MissingPackage
from chiplog.core.identity import Identity
from chiplog.core.records import Step
from chiplog.sinks import registry
from tests.support import packages

MINE = """
from chiplog.core.records import points


class Mine:
    def __init__(self, path):
        self.path = path

    def write(self, batch):
        with self.path.open("a") as file:
            file.writelines(f"{name}={value}\\n" for record in batch for name, value in points(record))

    def close(self): ...


def open_sink(identity, environ, *, file="mine.txt"):
    return Mine(identity.dir / file)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A sink in one file, as in CONTRIBUTING.md."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.setattr(sinks, "__path__", [*sinks.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "chiplog.sinks.mine", raising=False)
    registry.service_options.cache_clear()
    return "mine"


@pytest.mark.parametrize("service", [False, True])
def test_a_sink_is_one_file_and_one_name(
    tmp_path: Path, mine: str, service: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local one, or a service that needs no package; its options are those of its `open_sink`."""
    monkeypatch.setattr(registry, "BUILT_IN", (*registry.BUILT_IN, mine))
    if service:
        monkeypatch.setitem(registry.SERVICES, mine, registry.Service())
    else:
        monkeypatch.setattr(registry, "LOCAL", (*registry.LOCAL, mine))
    assert registry.is_service(mine) is service
    registry.check_options(mine, {"file": "x"})
    identity = Identity("p", "r", tmp_path, "n", "l")
    sink = registry.open_named(mine, {"file": "points.txt"}, identity, {})
    sink.write([Step(0, 1, 0, {"loss": 2.5})])
    sink.close()
    assert (tmp_path / "points.txt").read_text() == "loss=2.5\n"
    with pytest.raises(BadSetting, match="no option 'path'; available: file"):
        registry.open_named(mine, {"path": "x"}, identity, {})


@pytest.mark.parametrize(
    ("name", "option"), [("aim", "repo"), ("otel", "endpoint"), ("wandb", "entity"), ("mlflow", "uri")]
)
def test_an_unknown_option_of_a_service_fails_in_init(tmp_path: Path, name: str, option: str) -> None:
    """Its options are known without importing it."""
    packages.need(name)
    assert option in registry.service_options(name)
    with pytest.raises(BadSetting, match=f"the '{name}' sink has no option 'rebo'; available: .*{option}"):
        chiplog.init("test", sinks={name: {"rebo": "x"}}, dir=tmp_path)


def test_a_package_without_a_wheel_is_not_advised(monkeypatch: pytest.MonkeyPatch) -> None:
    """From Python 3.13 on, `pip install 'chiplog[aim]'` installs nothing; the message says so."""
    monkeypatch.setattr(registry, "is_installed", lambda name: False)
    monkeypatch.setattr(registry.sys, "version_info", (3, 13, 0))
    with pytest.raises(MissingPackage, match=r"no wheel from Python 3\.13 on: use an older Python, or leave 'aim' out"):
        registry.is_service("aim")
    monkeypatch.setattr(registry.sys, "version_info", (3, 12, 4))
    with pytest.raises(MissingPackage, match=r"pip install 'chiplog\[aim\]'"):
        registry.is_service("aim")


def test_a_service_keeps_the_console() -> None:
    """Unless it is told not to; other sinks replace it."""
    for names, kept in (
        (("wandb",), ["console", "wandb"]),
        (("wandb", "console"), ["wandb", "console"]),
        (("csv", "mlflow"), ["console", "csv", "mlflow"]),
        (("wandb", "-console"), ["wandb"]),
        (("-console",), []),
        (("csv",), ["csv"]),
        (("none",), ["none"]),
    ):
        assert list(registry.with_console({name: {} for name in names})) == kept
