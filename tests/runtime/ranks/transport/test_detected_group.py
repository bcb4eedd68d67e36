"""Which process group is used: the one that the training has set up."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from chiplog.runtime.ranks.transport import detected_group
from chiplog.runtime.ranks.transport.jax_store import JaxGroup


@pytest.fixture(autouse=True)
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch.distributed", "jax._src.distributed", "mpi4py.MPI"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def test_a_process_without_a_group_has_none() -> None:
    """Nothing is imported to find out."""
    before = set(sys.modules)
    assert detected_group.find(1.0, {}) is None
    assert not {name for name in set(sys.modules) - before if name.startswith(("torch", "jax", "mpi4py"))}


def test_packages_that_are_loaded_but_not_set_up_have_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A script may import torch, JAX and MPI and run alone."""
    torch = SimpleNamespace(is_available=lambda: True, is_initialized=lambda: False)
    mpi = SimpleNamespace(Is_initialized=lambda: True, Is_finalized=lambda: False, COMM_WORLD=SimpleNamespace(size=1))
    monkeypatch.setitem(sys.modules, "torch.distributed", torch)
    jax = SimpleNamespace(global_state=SimpleNamespace(client=None))
    monkeypatch.setitem(sys.modules, "jax._src.distributed", jax)
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", mpi)
    assert detected_group.find(1.0, {}) is None


def test_the_group_of_jax_is_used_once_its_coordinator_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the rank and the number of processes that JAX has."""
    state = SimpleNamespace(client=object(), process_id=2, num_processes=4)
    monkeypatch.setitem(sys.modules, "jax._src.distributed", SimpleNamespace(global_state=state))
    group = detected_group.find(1.0, {})
    assert isinstance(group, JaxGroup) and (group.rank, group.world) == (2, 4)
