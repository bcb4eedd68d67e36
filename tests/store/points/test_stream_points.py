"""The points of one stream."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog.store.contents.run_segments import RunSegments
from chiplog.store.points.stream_points import StreamPoints


def test_a_stream_grows_with_its_segment(tmp_path: Path) -> None:
    """Every refresh reads what is new."""
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        run.log({"loss": 1.0}, step=5)
        run.flush()
        (segment,) = RunSegments(run.dir)()
        stream = StreamPoints(0, 1)
        stream.refresh(segment)
        assert stream.names() == ["loss"] and stream.first_step == 5
        run.log({"lr": 0.1}, step=6)
        run.flush()
        stream.refresh(segment)
    assert sorted(stream.names()) == ["loss", "lr"] and stream.has("lr") and not stream.has("mfu")
    assert [values.tolist() for _, values in stream.places("loss")] == [[1.0]]
