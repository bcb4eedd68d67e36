"""Spans while nothing is traced."""

from __future__ import annotations

import pytest

from chiplog.core.tracing.idle_span import NO_SPAN, Idle, Idles


def test_an_idle_span_does_nothing() -> None:
    """Its methods are those of a span."""
    with Idle() as span:
        assert span is NO_SPAN
        span.begin().end("failed")
        span.tag(a=1)
        span.async_end(object())
    assert (span.id, span.elapsed, span.error) == (0, 0.0, "")


def test_exceptions_pass_through_an_idle_span() -> None:
    """It swallows nothing."""
    with pytest.raises(KeyError), Idle():
        raise KeyError


def test_names_share_one_span_each_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that invents names uses no memory."""
    monkeypatch.setattr(Idles, "MOST", 2)
    idles = Idles(lambda _: NO_SPAN)
    assert idles["a"] is idles["a"] and idles["b"] is not idles["a"]
    assert idles["c"] is not idles["c"] and len(idles) == 2
