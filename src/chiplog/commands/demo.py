"""Train a small language model, as an example."""

from __future__ import annotations

import os
import shutil
import sys
from argparse import ArgumentParser, Namespace

from chiplog.core.errors import BadSetting
from chiplog.sinks.console.sink import Console

EXAMPLE = "chiplog demo --seconds 10"
RATE = 2.0  # lines per second, slow enough to read


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--seconds", type=float, default=20.0, metavar="S", help="approximate duration in seconds (default: 20)"
    )


def run(args: Namespace) -> int:
    if not 0 < args.seconds < float("inf"):
        raise BadSetting(f"--seconds {args.seconds:g}: must be more than 0 seconds")
    # Matrices this small are slower with several threads; numpy reads this when it is loaded.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from chiplog.demo.train import demo

    screen = args.screen._replace(width=min(args.screen.width, 120))
    return demo(
        dir=args.dir,
        seconds=args.seconds,
        sinks=["csv", Console(sys.stdout, environ=args.environ, width=args.screen.room and screen.width, rate=RATE)],
        screen=screen,
        command=_command(),
    )


def _command() -> str:
    """The command to run chiplog again: its name if the shell finds it, otherwise as it was called."""
    if shutil.which("chiplog"):
        return "chiplog"
    return "python -m chiplog" if sys.argv[0].endswith("__main__.py") else sys.argv[0]
