"""Figures, Pillow images and data frames, logged as they are."""

from __future__ import annotations

import pandas
import polars
import pyarrow
from PIL import Image as Pillow

from chiplog.core import records
from chiplog.core.values.foreign_media import Frame, Several, recognize
from chiplog.core.values.media import Image, Text


def test_a_data_frame_becomes_rows_of_a_table() -> None:
    """Of pandas, polars and pyarrow."""
    columns = {"a": [1, 2], "b": ["x", "y"]}
    for frame in (pandas.DataFrame(columns), polars.DataFrame(columns), pyarrow.table(columns)):
        table = recognize(frame)
        assert isinstance(table, Frame)
        assert list(table.records("t")) == [
            (records.Table, {"name": "t", "rows": [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]})
        ]


def test_a_list_of_media_stays_together() -> None:
    """A list of anything else is none."""
    several = recognize([Image(b"GIF8"), Pillow.new("L", (2, 2))])
    assert isinstance(several, Several) and [type(item) for item in several.items] == [Image, Image]
    assert recognize([Text("a"), 3]) is None
    assert recognize([1, 2]) is recognize([]) is recognize("text") is recognize(None) is None
