"""A run as columns."""

from __future__ import annotations

from pathlib import Path

import chiplog
from chiplog.store.contents.run_segments import RunSegments
from chiplog.store.run_arrays import RunArrays


def test_every_query_reads_what_is_new(tmp_path: Path) -> None:
    """While the run is being written."""
    with chiplog.init("p", dir=tmp_path, alerts=False) as run:
        run.log({"loss": 1.0}, step=1)
        run.flush()
        columns = RunArrays(RunSegments(run.dir))
        assert columns.names() == ["loss"]
        run.log({"loss": 0.5, "lr": 0.1}, step=2)
        run.flush()
        assert sorted(columns.names()) == ["loss", "lr"]
        assert columns.series("loss", None, None).values.tolist() == [1.0, 0.5]
        assert columns.to_arrow().num_rows == 3
