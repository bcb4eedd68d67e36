"""`python -m chiplog.commands.sync.relay RUN`: the process that delivers to services, started by `init`.

Its orders come through its input, because they may hold secrets.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec

from chiplog.commands.sync import delivery_process
from chiplog.core.files.writing import match_run
from chiplog.core.paths import access_of
from chiplog.sinks.delivery.relay_process import read_orders, serve
from chiplog.sinks.registry import QUIET, SERVICES
from chiplog.store import layout


def main(run: Path) -> None:
    try:
        orders = read_orders()
    except (EOFError, OSError, msgspec.MsgspecError) as error:
        sys.exit(f"the relay received no instructions: {error}")
    inside = all(name in SERVICES and SERVICES[name].inside for name in orders.services)
    if inside and not os.environ.get("WANDB_DIR"):
        os.umask(0o077 & ~access_of(run))  # what the packages of services write in the run directory is as the run is
    os.environ.update({**QUIET, **os.environ})
    delivery_process.start()
    delivery_process.bound_answers(orders.services)
    serve(orders, dict(os.environ))
    match_run(run / layout.FILES)  # even if it was created under the user's umask
    delivery_process.exit_at_once(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
