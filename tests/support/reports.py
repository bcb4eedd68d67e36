"""The sections of a report."""

from __future__ import annotations

from chiplog.views.report.document import Document, Section


def section(document: Document, title: str) -> Section:
    return next(one for one in document.shown if one.title == title)
