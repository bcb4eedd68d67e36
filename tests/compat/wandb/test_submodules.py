"""The submodules of W&B's client that frameworks import."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

import chiplog.compat.wandb as wandb
from chiplog.compat.wandb.submodules import SUBMODULES, install

NAME = "wandb_by_another_name"


@pytest.fixture
def installed() -> Iterator[ModuleType]:
    """The stand-in under a name of its own, so that this process keeps its `wandb`."""
    module = ModuleType(NAME)
    vars(module).update({name: value for name, value in vars(wandb).items() if not name.startswith("__")})
    install(NAME, module)
    yield module
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


def test_every_submodule_name_exists() -> None:
    """What frameworks import from W&B's submodules is there."""
    for names in SUBMODULES.values():
        for where in names.values():
            found: Any = wandb
            for part in where.split("."):
                found = vars(found).get(part) if not isinstance(found, type) else getattr(found, part)
            assert found is not None, where


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("path", SUBMODULES)
def test_every_submodule_can_be_imported(path: str) -> None:
    """With its names, by `import a.b.c` and by `from a.b import c`; tools that look for it find it."""
    module = importlib.import_module(f"{NAME}.{path}")
    assert SUBMODULES[path].keys() <= vars(module).keys()
    parent, _, last = path.rpartition(".")
    if parent:
        assert getattr(importlib.import_module(f"{NAME}.{parent}"), last) is module
    spec = find_spec(f"{NAME}.{path}")
    assert spec is not None and spec.name == f"{NAME}.{path}"


def test_a_name_of_the_stand_in_is_not_replaced(installed: ModuleType) -> None:
    """`wandb.errors` is a module with more than the table lists, and `wandb.sdk` is not an inert name."""
    assert installed.errors is wandb.errors and installed.plot is wandb.plot
    assert installed.sdk.wandb_run.Run is installed.Run is wandb.Run
    assert importlib.import_module(f"{NAME}.errors").CommError is wandb.errors.CommError


@pytest.mark.usefixtures("installed")
def test_a_submodule_that_is_not_listed_is_an_import_error() -> None:
    """Frameworks try several places, and expect no other error."""
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(f"{NAME}.sdk.interface.artifacts")
    with pytest.raises(AttributeError):
        importlib.import_module(f"{NAME}.sdk").no_such_name  # noqa: B018
