"""Sweeps need a server; the call says so before anything has been trained."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chiplog.compat.wandb import sweeps
from chiplog.compat.wandb.errors import Error, UsageError


@pytest.mark.parametrize(
    ("call", "name"), [(sweeps.sweep, "sweep"), (sweeps.agent, "agent"), (sweeps.controller, "controller")]
)
def test_a_sweep_is_refused_with_what_to_use(call: Callable[..., None], name: str) -> None:
    """The error is one that scripts for W&B catch."""
    with pytest.raises(UsageError, match=rf"wandb\.{name}\(\) needs W&B's server.*chiplog compare") as raised:
        call({"method": "grid"}, count=3)
    assert isinstance(raised.value, Error) and raised.value.message == str(raised.value)
