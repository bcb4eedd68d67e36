"""Every way for ranks to reach each other has what rounds call."""

from __future__ import annotations

import inspect

import pytest

from chiplog.runtime.ranks.transport.group import Group
from chiplog.runtime.ranks.transport.jax_store import JaxGroup
from chiplog.runtime.ranks.transport.late_group import LateGroup
from chiplog.runtime.ranks.transport.mpi import MpiGroup
from chiplog.runtime.ranks.transport.torch_gloo import TorchGroup

METHODS = [name for name, value in vars(Group).items() if inspect.isfunction(value) and not name.startswith("_")]


@pytest.mark.parametrize("kind", [JaxGroup, LateGroup, MpiGroup, TorchGroup])
@pytest.mark.parametrize("name", METHODS)
def test_a_group_is_called_like_every_other(kind: type, name: str) -> None:
    """With the same arguments by the same names, since the rounds do not know which one they have."""
    expected = inspect.signature(getattr(Group, name)).parameters
    parameters = inspect.signature(getattr(kind, name)).parameters
    assert [(one.name.lstrip("_"), one.default) for one in parameters.values()] == [
        (one.name, one.default) for one in expected.values()
    ]
