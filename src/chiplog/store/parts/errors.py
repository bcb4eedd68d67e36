"""The error of a part that cannot be read. It has its own module, which does not import pyarrow."""

from __future__ import annotations


class BrokenPart(Exception):
    """The bytes of a part are not as written; its segment holds the same records."""
