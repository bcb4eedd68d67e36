"""Functions that run inside a span: plain ones, coroutines and generators."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

Make = Callable[[], AbstractContextManager[Any]]

_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = 0x20, 0x80, 0x200  # of CodeType.co_flags


def decorated(function: Callable[P, T], make: Make) -> Callable[P, T]:
    """The function inside a context that is made anew for every call, and lasts as long as the call does."""
    code = getattr(function, "__code__", None)
    flags = code.co_flags if isinstance(code, CodeType) else 0
    wrapped: Any
    if flags & _COROUTINE:
        wrapped = _of_coroutine(function, make)  # type: ignore[arg-type]
    elif flags & _ASYNC_GENERATOR:
        wrapped = _of_async_generator(function, make)
    elif flags & _GENERATOR:
        wrapped = _of_generator(function, make)  # type: ignore[arg-type]
    else:

        def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
            with make():
                return function(*args, **kwargs)

    return functools.wraps(function)(wrapped)


def _of_coroutine(function: Callable[P, Awaitable[T]], make: Make) -> Any:
    async def timed(*args: P.args, **kwargs: P.kwargs) -> T:
        with make():
            return await function(*args, **kwargs)

    return timed


def _of_generator(function: Callable[P, Generator[Any, Any, T]], make: Make) -> Any:
    def timed(*args: P.args, **kwargs: P.kwargs) -> Generator[Any, Any, T]:
        with make():
            return (yield from function(*args, **kwargs))

    return timed


def _of_async_generator(function: Callable[P, Any], make: Make) -> Any:
    async def timed(*args: P.args, **kwargs: P.kwargs) -> Any:
        with make():
            items = function(*args, **kwargs)
            try:
                async for item in items:
                    yield item
            finally:
                await items.aclose()

    return timed
