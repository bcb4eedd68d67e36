"""Scalars that are decoded in columns are those that TensorBoard's own messages have, one by one."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.scalar import summary_v2 as scalar_v2

from chiplog.store.foreign.formats.tensorboard.scalars import FEW, NONE, ScalarEvents, decode

Decoded = list[tuple[int, str, int, float, str]]  # number, tag, step, time, value


def scalar(tag: str, value: float, step: int, wall: float = 1.5) -> Event:
    return Event(wall_time=wall, step=step, summary=Summary(value=[Summary.Value(tag=tag, simple_value=value)]))


class Tags:
    """The tags by the bytes before a value, from TensorBoard's own messages."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, head: bytes, event: bytes) -> int | None:
        values = Event.FromString(event).summary.value
        tag = values[0].tag if values else ""
        plain = Event(summary=Summary(value=[Summary.Value(tag=tag, simple_value=0.0)])).SerializeToString()[:-4]
        if head != plain:
            return None
        self.names.append(tag)
        return len(self.names) - 1


def joined(events: list[Event]) -> tuple[bytes, list[tuple[int, int]]]:
    """Events as in a file: with other bytes between them."""
    data, spans = b"", []
    for event in events:
        data += b"frame"
        start = len(data)
        data += event.SerializeToString()
        spans.append((start, len(data)))
    return data + b"end", spans


def decoded(events: list[Event]) -> tuple[Decoded, list[int]]:
    tags = Tags()
    scalars, left = decode(*joined(events), tags)
    columns = (scalars.at, scalars.which, scalars.steps, scalars.walls, scalars.values)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [(at, tags.names[which], step, wall, repr(value)) for at, which, step, wall, value in rows], left


def expected(events: list[Event], numbers: set[int]) -> Decoded:
    return [
        (at, event.summary.value[0].tag, event.step, event.wall_time, repr(event.summary.value[0].simple_value))
        for at, event in enumerate(events)
        if at in numbers
    ]


@pytest.mark.parametrize("seed", range(10))
def test_mixed_events_are_decoded_in_their_order(seed: int) -> None:
    """Tags and steps of any length, NaN and infinities; every event is either decoded or left, and none is both."""
    chance = random.Random(seed)
    tags = ["loss", "größe", "x" * 200, "a", "b", ""]
    steps = [1, 127, 128, 2**20, 2**62, 2**63 - 1]
    odd = [float("nan"), float("inf"), -0.0, 1e-45]
    events = [
        scalar(chance.choice(tags), chance.choice([*odd, chance.random()]), chance.choice(steps), chance.random())
        for _ in range(600)
    ]
    rows, left = decoded(events)
    lengths = [len(event.SerializeToString()) for event in events]
    often = {length for length, count in Counter(lengths).items() if count >= FEW and length > 24}
    numbers = {at for at, length in enumerate(lengths) if length in often}
    assert rows == expected(events, numbers) and sorted([*numbers, *left]) == list(range(600))
    assert len(rows) > 300 and left


OTHERS = {
    "a first step, which is left out": Event(wall_time=1.5, summary=Summary(value=[Summary.Value(tag="loss", simple_value=1)])),
    "a negative step": scalar("loss", 1.0, -5),
    "no time": Event(step=5, summary=Summary(value=[Summary.Value(tag="loss", simple_value=1)])),
    "two values": Event(wall_time=1.5, step=5, summary=Summary(value=[Summary.Value(tag="a", simple_value=1)] * 2)),
    "a tensor": Event(wall_time=1.5, step=5, summary=scalar_v2.scalar_pb("loss", 1.0)),
    "a node beside the tag": Event(
        wall_time=1.5, step=5, summary=Summary(value=[Summary.Value(tag="loss", node_name="n", simple_value=1)])
    ),
    "an image": Event(wall_time=1.5, step=5, summary=Summary(value=[Summary.Value(tag="x", image=Summary.Image(height=9))])),
    "a version": Event(wall_time=1.5, file_version="brain.Event:2" + " " * 20),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_events_of_another_shape_are_left(name: str) -> None:
    """However many of them there are, also among scalars of the same length."""
    rows, left = decoded([OTHERS[name]] * 40)
    assert rows == [] and left == list(range(40))
    length = len(OTHERS[name].SerializeToString())
    around = scalar("s" * (length - 22), 2.0, 5)
    if len(around.SerializeToString()) == length > 24:
        rows, left = decoded([around, OTHERS[name]] * 40)
        assert rows == expected([around] * 80, set(range(0, 80, 2))) and left == list(range(1, 80, 2))


def test_a_few_events_are_not_worth_columns() -> None:
    """Nor is one that is very long; both are left to the decoder of single events."""
    few = [scalar("loss", 1.0, 5)] * (FEW - 1)
    assert decoded(few) == ([], list(range(FEW - 1))) and len(decoded([*few, few[0]])[0]) == FEW
    assert decoded([scalar("x" * 2000, 1.0, 5)] * 40)[0] == [] == decoded([])[0]


def test_columns_are_joined_by_their_numbers() -> None:
    """Those that were decoded one by one are put between the others."""
    some = ScalarEvents(*(np.array(column) for column in ([0, 2], [0, 0], [5, 6], [1.0, 2.0], [0.5, 0.25])))
    other = ScalarEvents(*(np.array(column) for column in ([1], [1], [9], [1.5], [0.75])))
    both = NONE.then(some, other)
    assert both.at.tolist() == [0, 1, 2] and both.values.tolist() == [0.5, 0.75, 0.25]
    assert both.take(slice(1, None)).steps.tolist() == [9, 6]
