"""`python -m bench.floor RUN`: read, split, check and decode the lines of a run, and nothing else."""

from __future__ import annotations

import sys
from pathlib import Path

from chiplog.core.records import decode
from chiplog.store.journal.lines import is_whole

for path in sorted(Path(sys.argv[1], "journal").glob("*.jsonl")):
    rest = b""
    with path.open("rb") as file:
        while data := file.read(4 << 20):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                if line:
                    assert is_whole(line), "a line is damaged"
                    decode(line)
