"""Functions inside a context, of every kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from chiplog.core.tracing.decorator import decorated

events: list[str] = []


@contextmanager
def context() -> Iterator[None]:
    events.append("enter")
    yield
    events.append("exit")


def test_a_function_runs_inside_and_keeps_its_name() -> None:
    """The context is created for every call."""
    events.clear()

    def add(a: int, b: int) -> int:
        events.append("call")
        return a + b

    wrapped = decorated(add, context)
    assert wrapped(1, b=2) == 3 and wrapped.__name__ == "add" and events == ["enter", "call", "exit"]


def test_a_generator_is_inside_until_it_ends() -> None:
    """Its return value is passed on."""
    events.clear()

    def count() -> Iterator[int]:
        yield 1
        events.append("body")

    assert list(decorated(count, context)()) == [1] and events == ["enter", "body", "exit"]


def test_coroutines_and_async_generators_are_inside_while_they_run() -> None:
    """Not only while they are created."""
    events.clear()

    async def work() -> int:
        events.append("work")
        return 1

    async def items() -> AsyncIterator[int]:
        yield 2
        events.append("items")

    async def main() -> list[int]:
        first = await decorated(work, context)()
        return [first, *[item async for item in decorated(items, context)()]]

    assert asyncio.run(main()) == [1, 2]
    assert events == ["enter", "work", "exit", "enter", "items", "exit"]
