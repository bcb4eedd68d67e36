"""`python -m chiplog.commands.sync.relay ORDERS`: the process that delivers to services; started by `init`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from chiplog.commands.sync import side_process
from chiplog.core.paths import make_private
from chiplog.sinks.delivery.relay import Orders, serve
from chiplog.sinks.registry import QUIET
from chiplog.store import layout

# Services that write no files, or only in the run directory; others write where the user says.
INSIDE = {"wandb", "otel", "prometheus"}


def main(path: Path) -> None:
    services = set(msgspec.json.decode(path.read_bytes(), type=Orders).services)
    if services <= INSIDE and not os.environ.get("WANDB_DIR"):
        os.umask(0o077)  # files that the packages of services write in the run directory are private too
    os.environ.update({**QUIET, **os.environ})
    side_process.start()
    serve(path, dict(os.environ))
    make_private(path.parents[1] / layout.FILES)  # even if it was created under the user's umask
    side_process.exit_at_once(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
