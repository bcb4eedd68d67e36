"""Rounds over JAX's key-value store, with a store in memory that all ranks of the test share."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from chiplog.runtime.ranks.transport import jax_store
from chiplog.runtime.ranks.transport.group import GroupBroken
from chiplog.runtime.ranks.transport.jax_store import JaxGroup


class Store:
    """The methods of JAX's client that a group calls."""

    def __init__(self) -> None:
        self.values: dict[str, str | bytes] = {}

    def key_value_set(self, key: str, value: str | bytes) -> None:
        self.values[key] = value

    key_value_set_bytes = key_value_set

    def key_value_dir_get(self, folder: str) -> list[tuple[str, str | bytes]]:
        return [(key, value) for key, value in self.values.items() if key.startswith(folder)]

    key_value_dir_get_bytes = key_value_dir_get

    def key_value_delete(self, prefix: str) -> None:
        self.values = {key: value for key, value in self.values.items() if not key.startswith(prefix)}

    def blocking_key_value_get(self, key: str, _: int) -> str | bytes:
        return self.values[key]


class StillWaiting(Exception):
    pass


def give_up() -> None:
    raise StillWaiting


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[JaxGroup]:
    store, made = Store(), []
    for rank in range(3):
        monkeypatch.setattr(jax_store, "_count", 0)
        state = SimpleNamespace(client=store, process_id=rank, num_processes=3)
        monkeypatch.setitem(sys.modules, "jax._src.distributed", SimpleNamespace(global_state=state))
        made.append(JaxGroup())
    return made


def test_everyone_gets_the_chunks_of_all_in_the_order_of_ranks(groups: list[JaxGroup]) -> None:
    """Whoever writes first."""
    rounds = {group.rank: group.exchange(b"%d" % group.rank, everyone=True) for group in reversed(groups)}
    assert [rounds[rank](give_up) for rank in range(3)] == [[b"0", b"1", b"2"]] * 3


def test_a_late_rank_holds_its_round_open(groups: list[JaxGroup]) -> None:
    """The others pause, and nothing is lost when it comes."""
    first = groups[0].exchange(b"0", everyone=False)
    groups[1].exchange(b"1", everyone=False)
    with pytest.raises(StillWaiting):
        first(give_up)
    groups[2].exchange(b"2", everyone=False)
    assert first(give_up) == [b"0", b"1", b"2"]


def test_a_rank_that_has_finished_counts_as_zeros(groups: list[JaxGroup]) -> None:
    """From its last round on, so that the others do not wait for it."""
    groups[2].close()
    rounds = [group.exchange(b"xy", everyone=True) for group in groups[:2]]
    assert [one(give_up) for one in rounds] == [[b"xy", b"xy", b"\0\0"]] * 2


def test_without_rank_0_the_group_is_over(groups: list[JaxGroup]) -> None:
    """Nobody else would clear the store."""
    groups[0].close()
    late = groups[1].exchange(b"1", everyone=True)
    groups[2].exchange(b"2", everyone=True)
    with pytest.raises(GroupBroken):
        late(give_up)
    assert groups[1].form() == ()


def test_the_store_keeps_only_the_newest_rounds(groups: list[JaxGroup]) -> None:
    """A long run does not fill the coordinator."""
    sizes = []
    for _ in range(5):
        for one in [group.exchange(b"x", everyone=True) for group in groups]:
            one(give_up)
        sizes.append(len(groups[0]._client.values))
    assert sizes[2] == sizes[-1] <= 5
