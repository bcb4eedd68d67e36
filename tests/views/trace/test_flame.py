"""The flame view."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from chiplog.store.spans.span import StoredSpan
from chiplog.views.trace import flame
from tests.store.spans.building import spans_of
from tests.support.spans import STEP, S, span


def test_flame_rows_hold_what_is_inside_below() -> None:
    """Timelines in turn: threads, devices, queues; boxes as long as their spans."""
    drawn = flame.draw(STEP, width=100).splitlines()
    labels = [line[:10].strip() for line in drawn]
    assert labels == ["", "main", "", "", "gpu0", "gpu0_queue"]
    assert drawn[1].strip().startswith("main") and drawn[1].count("─") > 70
    assert [name for name in ("data", "forward", "sync") if name in drawn[2]] == ["data", "forward", "sync"]
    assert "backwa" in drawn[4] or "[bac" in drawn[3]
    assert max(map(len, drawn)) <= 100
    assert flame.draw(STEP, width=100, ascii=True).isascii() and "\x1b[" in flame.draw(STEP, colour=True)
    assert flame.draw([]) == "no spans"


def test_spans_that_overlap_get_rows_of_their_own() -> None:
    """Nothing is drawn over."""
    [band] = flame.bands([span(1, "a", 0, 5), span(2, "b", 2, 6), span(3, "c", 6, 7)])
    assert [(box.span.name, box.row) for box in band.boxes] == [("a", 0), ("b", 1), ("c", 0)]


def test_the_picture_has_every_span() -> None:
    """Valid SVG, with names as they are escaped."""
    odd = StoredSpan(99, 1, "<&>", "main", 0, S, 0)
    drawn = ElementTree.fromstring(flame.svg([*STEP, odd], title="a & b"))
    titles = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert len(titles) == len(STEP) + 1 and "<&> 1s" in titles
    ElementTree.fromstring(flame.svg([]))


def test_rows_have_an_end() -> None:
    """What is below the last one is counted, in the terminal and in the picture."""
    many = spans_of([span(at + 1, "a", at / 1e3, 10) for at in range(flame.DEEPEST + 7)])
    drawn = flame.draw(many)
    assert f"and 7 spans below the {flame.DEEPEST} rows" in drawn and len(drawn.splitlines()) == flame.DEEPEST + 2
    assert f"without 7 spans below the {flame.DEEPEST} rows" in flame.svg(many)
