"""Record a command, or run it with a stand-in for its tracker."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
from argparse import REMAINDER, ArgumentParser, Namespace

import chiplog
from chiplog.commands.run import stand_in
from chiplog.commands.run.child import Child
from chiplog.core.errors import BadSetting
from chiplog.probes import registry as probes

EXAMPLE = "chiplog run --as wandb -- torchrun --nproc-per-node 8 train.py"
# The exit codes of programs that were told to stop.
STOPPED = (-signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGTERM)


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--as", dest="stand_in", metavar="TRACKER", help="tracker to stand in for: wandb, tensorboard")
    parser.add_argument("--project", help="the project of the run")
    parser.add_argument("--name", help="the name of the run (default: the command)")
    parser.add_argument("command", nargs=REMAINDER, metavar="-- COMMAND", help="the command and its arguments")


def run(args: Namespace) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise BadSetting(f"no command to run; for example: {EXAMPLE}")
    if shutil.which(command[0]) is None:
        raise BadSetting(f"no command {command[0]!r}; give a program on the PATH, such as `python train.py`")
    environ: dict[str, str] = dict(args.environ)
    if args.stand_in is not None:
        _become(args, command, environ)
    return _record(args, command, environ)


def _become(args: Namespace, command: list[str], environ: dict[str, str]) -> None:
    """Turn this process into the command, which and whose children import the stand-in."""
    stand_in.activate(args.stand_in, environ)
    environ["CHIPLOG_DIR"] = os.path.abspath(args.root)  # noqa: PTH100  the command may change its directory
    prefix = {"wandb": "WANDB"}.get(args.stand_in, "CHIPLOG")
    if args.project:
        environ[f"{prefix}_PROJECT"] = args.project
    if args.name:
        environ[f"{prefix}_NAME"] = args.name
    stand_in.check(args.stand_in, command, environ)
    os.execvpe(command[0], command, environ)


def _record(args: Namespace, command: list[str], environ: dict[str, str]) -> int:
    """Run the command as a child, and keep what it prints, how it ends, and the machine."""
    words = shlex.join(command)
    recorded = chiplog.init(
        args.project,
        args.name or words[:100],
        {"command": words},
        "none",
        dir=args.root,
        capture=True,
        probes=",".join(probes.present()) or None,
        reduce=False,
    )
    code = Child(command, environ).wait()
    if code == 0:
        recorded.finish()
    elif code in STOPPED:
        recorded.finish(state="interrupted", reason=_words(code))
    else:
        recorded.finish(state="failed", reason=_words(code))
    return 128 - code if code < 0 else code


def _words(code: int) -> str:
    return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
