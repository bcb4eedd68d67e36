"""The components of a run, connected to a journal in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chiplog.core.engine.components import Components
from chiplog.core.identity import Identity
from chiplog.core.protocols import JournalLike

IDENTITY = Identity("p", "one", Path("runs/p/one"), "one", "launch")


def components(journal: JournalLike | None, **options: Any) -> Components:
    return Components(IDENTITY, journal, **options)
