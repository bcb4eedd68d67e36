"""The journal that discards everything."""

from __future__ import annotations

from chiplog.core.journals.null_journal import NullJournal
from chiplog.core.records import Step


def test_nothing_is_kept_and_nothing_is_lost() -> None:
    """What is discarded on purpose is not reported as dropped."""
    journal = NullJournal()
    journal.append(Step(0, 0, 1, {"loss": 1.0}))
    assert journal.flush(fsync=True) and not journal.keeps and journal.dropped == journal.waiting == 0
    journal.close()
