"""Rounds over MPI: requests are polled with pauses, and nothing blocks."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from chiplog.runtime.ranks.transport.mpi import MpiGroup


class Request:
    """Done after some polls; then the bytes have arrived."""

    def __init__(self, polls: int, target: bytearray | None = None, data: bytes = b"") -> None:
        self._polls, self._target, self._data = polls, target, data

    def Test(self) -> bool:
        self._polls -= 1
        if self._polls >= 0:
            return False
        if self._target is not None:
            self._target[:] = self._data
        return True


class Communicator:
    """One of two ranks."""

    size = 2

    def __init__(self, rank: int, polls: int = 2) -> None:
        self.rank, self._polls = rank, polls

    def Idup(self) -> tuple[Communicator, Request]:
        return self, Request(self._polls)

    def Ibcast(self, message: bytearray, root: int) -> Request:
        return Request(self._polls, None if root == self.rank else message, b"run-1".ljust(256))

    def Igather(self, chunk: bytes, received: bytearray | None, root: int) -> Request:
        return Request(self._polls, received, b"aabb")

    Iallgather: Any = lambda self, chunk, received: self.Igather(chunk, received, 0)


@pytest.fixture
def group(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MpiGroup:
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", SimpleNamespace(COMM_WORLD=Communicator(*request.param)))
    return MpiGroup()


@pytest.mark.parametrize("group", [(0,)], indirect=True)
def test_a_group_is_complete_once_the_communicator_is_duplicated(group: MpiGroup) -> None:
    """Until then there is none, and no call waits for it."""
    assert [group.form() for _ in range(3)] == [None, None, range(2)]


@pytest.mark.parametrize(
    ("group", "everyone", "chunks"),
    [((0,), False, [b"aa", b"bb"]), ((1,), False, None), ((1,), True, [b"aa", b"bb"])],
    indirect=["group"],
)
def test_a_round_pauses_until_all_ranks_are_in_it(group: MpiGroup, everyone: bool, chunks: list[bytes] | None) -> None:
    """Then rank 0, or everyone, has a chunk of each."""
    pauses: list[None] = []
    assert group.exchange(b"aa", everyone)(lambda: pauses.append(None)) == chunks
    assert len(pauses) == 2


@pytest.mark.parametrize("group", [(0,), (1,)], indirect=True)
def test_the_main_ranks_message_reaches_all(group: MpiGroup) -> None:
    """Without the padding that MPI needs."""
    assert group.broadcast("run-1", 5.0) == "run-1"


@pytest.mark.parametrize("group", [(1, 10**9)], indirect=True)
def test_a_message_that_does_not_come_is_an_error(group: MpiGroup) -> None:
    """It names the rank that is missing."""
    with pytest.raises(TimeoutError, match="rank 0"):
        group.broadcast("", 0.01)
