"""Functions that run inside a span: plain ones, coroutines and generators."""

from __future__ import annotations

import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Context = Callable[[], AbstractContextManager[object]]
Yields = Generator[object, object, object]
AsyncYields = AsyncGenerator[object, None]

_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200  # of CodeType.co_flags


def decorated(function: Callable[P, T], context: Context) -> Callable[P, T]:
    """A function that runs inside a context, created for every call and open for as long as the call lasts."""
    code = getattr(function, "__code__", None)
    flags = code.co_flags if isinstance(code, CodeType) else 0
    wrap: Callable[[Any, Context], Callable[..., Any]] = _wrap_function
    if flags & _COROUTINE:
        wrap = _wrap_coroutine
    elif flags & _ASYNC_GENERATOR:
        wrap = _wrap_async_generator
    elif flags & _GENERATOR:
        wrap = _wrap_generator
    return functools.wraps(function)(wrap(function, context))


def _wrap_function(function: Callable[..., object], context: Context) -> Callable[..., object]:
    def timed(*args: object, **kwargs: object) -> object:
        with context():
            return function(*args, **kwargs)

    return timed


def _wrap_coroutine(function: Callable[..., Awaitable[object]], context: Context) -> Callable[..., Awaitable[object]]:
    async def timed(*args: object, **kwargs: object) -> object:
        with context():
            return await function(*args, **kwargs)

    return timed


def _wrap_generator(function: Callable[..., Yields], context: Context) -> Callable[..., Yields]:
    def timed(*args: object, **kwargs: object) -> Yields:
        with context():
            return (yield from function(*args, **kwargs))

    return timed


def _wrap_async_generator(function: Callable[..., AsyncYields], context: Context) -> Callable[..., AsyncYields]:
    async def timed(*args: object, **kwargs: object) -> AsyncYields:
        with context():
            items = function(*args, **kwargs)
            try:
                async for item in items:
                    yield item
            finally:
                await items.aclose()

    return timed
