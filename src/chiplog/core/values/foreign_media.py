"""Values of other libraries that are more than a number, logged as they are: figures, Pillow images, data frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chiplog.core import messages, records
from chiplog.core.values.media import Image, Media
from chiplog.core.values.pictures import MOST, is_picture
from chiplog.core.values.row_pieces import batches, is_frame


class Frame(Media):
    """A data frame of pandas, polars or pyarrow, which becomes rows of a table."""

    __slots__ = ("frame",)
    kind = records.Table

    def __init__(self, frame: object) -> None:
        self.frame = frame

    def records(self, name: str) -> Iterable[tuple[type[records.Record], dict[str, records.Plain]]]:
        return ((self.kind, {"name": name, "rows": rows}) for rows in batches(self.frame))


class Several(Media):
    """A list of media under one name."""

    __slots__ = ("items",)

    def __init__(self, items: Sequence[Media]) -> None:
        self.items = items


def recognize(value: object) -> Media | None:
    """The media that a value is, without a class of ours around it; None if it is none of them."""
    if is_picture(value):
        return Image(value)
    if is_frame(value):
        return Frame(value)
    if isinstance(value, (list, tuple)) and value and _is_media(value[0]):
        if len(value) > MOST:
            messages.once("media list", f"a list of {len(value):,} media is long; the first {MOST} are kept")
        items = [item if isinstance(item, Media) else recognize(item) for item in value[:MOST]]
        return Several([item for item in items if item is not None]) if None not in items else None
    return None


def _is_media(value: object) -> bool:
    return isinstance(value, Media) or is_picture(value) or is_frame(value)
