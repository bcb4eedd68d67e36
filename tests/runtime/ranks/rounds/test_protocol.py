"""What ranks send each other: any row, cut into chunks of any room, comes out as it went in."""

from __future__ import annotations

import math
import random
from array import array

import pytest

from chiplog.metrics.ranks.statistics import Values
from chiplog.metrics.ranks.step_gather import RankRow
from chiplog.runtime.ranks.rounds.protocol import HEAD, Farewell, Inbox, Message, Outbox, RankFacts


def send(outbox: Outbox, inbox: Inbox, rooms: list[int]) -> list[Message]:
    found: list[Message] = []
    for room in rooms:
        chunk = outbox.chunk(room)
        assert len(chunk) == room
        found += inbox.feed(chunk)
    return found


def put(outbox: Outbox, step: float, row: dict[str, float]) -> None:
    number, values = outbox.values(row)
    outbox.add(number, RankRow(step, values, 5))


@pytest.mark.parametrize("room", [HEAD.size + 1, 17, 64, 4096])
def test_a_row_goes_through_chunks_of_any_size(room: int) -> None:
    """Facts and the farewell too, in their order."""
    outbox, inbox = Outbox(), Inbox({}, set())
    outbox.add_facts({"host": "a"})
    put(outbox, 3, {"x": 1.5, "ünï/\ud800": -0.0})
    put(outbox, 2.5, {"x": math.inf, "ünï/\ud800": 2.0})
    outbox.add_farewell()
    frames = send(outbox, inbox, [room] * 400)
    assert outbox.left == inbox.left == 0
    names = ("x", "ünï/\ud800")
    assert frames == [
        RankFacts({"host": "a"}),
        RankRow(3, Values(names, array("d", [1.5, -0.0]).tobytes()), 5),
        RankRow(2.5, Values(names, array("d", [math.inf, 2.0]).tobytes()), 5),
        Farewell(),
    ]


def test_names_are_sent_once() -> None:
    """From the second row on a row is its doubles and 29 bytes."""
    outbox = Outbox()
    row = {f"train/metric_{number}": 1.0 for number in range(20)}
    put(outbox, 0, row)
    first = outbox.left
    put(outbox, 1, row)
    assert outbox.left - first == 20 * 8 + 29


def test_a_chunk_says_what_is_left() -> None:
    """So that all ranks can agree on the room."""
    outbox, inbox = Outbox(), Inbox({}, set())
    put(outbox, 0, {"x": 1.0})
    before = outbox.left
    send(outbox, inbox, [HEAD.size + 10])
    assert inbox.left == outbox.left == before - 10


def test_counters_stay_at_home_unless_they_are_asked_for() -> None:
    row = {"loss": 1.0, "lr": 0.1, "step": 3}
    assert Outbox().values(row)[1].names == ("loss",)
    assert Outbox(counters=True).values(row)[1].names == ("loss", "lr", "step")


def test_integers_beyond_the_doubles_are_infinite() -> None:
    _, values = Outbox().values({"x": 10**400, "y": -(10**400), "z": True})
    assert values.doubles == array("d", [math.inf, -math.inf, 1.0]).tobytes()


def test_many_sets_of_names_are_forgotten_and_sent_anew() -> None:
    """Memory is bounded, and nothing is lost by it."""
    shared: dict[int, tuple[str, ...]] = {}
    outbox, inbox = Outbox(), Inbox(shared, set())
    chosen = random.Random(7)
    numbers = [chosen.randrange(6000) for _ in range(9000)]
    for step, number in enumerate(numbers):
        put(outbox, step, {f"name/{number}": float(step)})
    frames = send(outbox, inbox, [1 << 20] * 4)
    assert [frame.values.names[0] for frame in frames if isinstance(frame, RankRow)] == [f"name/{n}" for n in numbers]
    assert len(shared) <= 256 and len(inbox._names) <= 256


def test_names_that_are_one_text_are_not_one_set() -> None:
    """Whatever stands in a name."""
    sets = [("a\0b",), ("a", "b"), ("a b",), ("1 a", "b"), ("a", "1 b"), ("ab",), ("", "ab")]
    assert len({Outbox().values(dict.fromkeys(names, 1.0))[0] for names in sets}) == len(sets)


def test_what_others_have_said_is_known_by_name() -> None:
    heard: set[str] = set()
    outbox, inbox = Outbox(), Inbox({}, heard)
    put(outbox, 0, {"x": 1.0, "lr": 1.0})
    send(outbox, inbox, [4096])
    assert heard == {"x"}


def test_bytes_that_are_none_of_ours_are_refused() -> None:
    with pytest.raises(ValueError, match="not sent by chiplog"):
        list(Inbox({}, set()).feed(HEAD.pack(8, 0) + b"\xff" * 8))
