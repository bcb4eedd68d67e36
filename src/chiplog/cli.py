"""The command line, `chiplog` or `python -m chiplog`: parses the arguments; the verbs are in `commands`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from chiplog.assembly import runs_dir
from chiplog.core import display, messages
from chiplog.core.errors import ChiplogError
from chiplog.version import VERSION

READ_PACKAGES = ("numpy", "pyarrow")
PANELS = ("charts", "system", "ranks", "alerts", "samples", "console", "overview")  # of `watch`

_Verb: TypeAlias = Callable[[str, str, str], argparse.ArgumentParser]  # name, what it does, an example

EXAMPLES = """\
examples:
  chiplog demo                              train a small model and show what was recorded
  chiplog ls                                the runs in ./runs, newest last
  chiplog show                              the newest run
  chiplog tail 261115                       follow the run whose id starts with 261115
  chiplog plot latest 'train/*loss' --log   draw curves in the terminal
  chiplog trace latest -o t.pftrace         where the time went, for ui.perfetto.dev
  chiplog ui                                the runs in the browser, live
  chiplog watch                             the same in the terminal, over ssh
  chiplog cat latest --kind eval | jq .     records as JSON Lines
  chiplog export latest --to csv -o x.csv   for a spreadsheet
  chiplog sync latest --to mlflow           deliver what a service does not have yet
  chiplog report latest                     write datasets, plots and a report
  chiplog compare RUN OTHER                 what differs, and whether it is more than noise
  chiplog doctor latest                     what is wrong, and what to do

RUN is a path, an id, the start of one, project/id, a name, or `latest`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one verb; the exit code is 0 for success, 1 when `doctor` finds a problem, 2 for a usage error."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        return _run(argv)
    except ChiplogError as error:
        messages.say(str(error))
    except ImportError as error:
        if error.name not in READ_PACKAGES:
            raise
        messages.say(f"this needs the {error.name!r} package: pip install 'chiplog[read]'")
    except BrokenPipeError:
        # The reader of our output is gone; the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        messages.say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return 130
    return 2


def _run(argv: Sequence[str] | None) -> int:
    args = parser().parse_args(argv)
    args.root = runs_dir(args.dir).expanduser()
    args.environ = dict(os.environ)
    args.screen = display.screen(sys.stdout, args.environ)
    args.alone = argv is None  # the process is there for this command only
    code: int = import_module(f"chiplog.commands.{args.verb}").run(args)
    sys.stdout.flush()
    return code


def parser() -> argparse.ArgumentParser:
    """The whole command line; the documentation tests and shell completion read it."""
    top = argparse.ArgumentParser(
        prog="chiplog",
        description="Inspect training runs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"chiplog {VERSION}")
    top.add_argument("--dir", metavar="DIR", help="where the runs are (default: CHIPLOG_DIR, settings, or runs)")
    anywhere = argparse.ArgumentParser(add_help=False)
    anywhere.add_argument("--dir", metavar="DIR", default=argparse.SUPPRESS, help="where the runs are")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)

    def verb(name: str, words: str, example: str) -> argparse.ArgumentParser:
        about = f"{words[0].upper()}{words[1:]}."
        return verbs.add_parser(name, help=words, description=about, epilog=f"example: {example}", parents=[anywhere])

    _looking(verb)
    _taking(verb)
    _keeping(verb)
    return top


def _looking(verb: _Verb) -> None:
    """The verbs that show something on screen."""
    ls = verb("ls", "list the runs, newest last", "chiplog ls tiny-lm -n 20")
    ls.add_argument("project", nargs="?", metavar="PROJECT", help="only the runs of this project")
    ls.add_argument("-n", type=_whole, metavar="N", help="only the newest N")
    ls.add_argument("--json", action="store_true", help="as JSON")

    show = verb("show", "show everything about a run", "chiplog show latest")
    _takes_run(show)
    show.add_argument("--all", action="store_true", help="show all series and settings, however many")
    show.add_argument("--ranks", action="store_true", help="show one series by rank, as a table and a heat map")
    show.add_argument("--of", metavar="NAME", help="the series for --ranks (default: the step time, or a loss)")
    show.add_argument("--json", action="store_true", help="as JSON")

    tail = verb("tail", "follow a run while it is written", "chiplog tail latest -n 5")
    _takes_run(tail)
    tail.add_argument(
        "-n", type=_whole, default=10, metavar="N", help="start with the last N records or lines (default: 10)"
    )
    tail.add_argument("--once", action="store_true", help="do not follow")
    tail.add_argument("--console", action="store_true", help="show what the run printed, if it was captured")

    plot = verb("plot", "draw series in the terminal", "chiplog plot latest 'train/*' --log")
    _takes_run(plot, "RUN[,RUN...]")
    plot.add_argument("names", nargs="*", metavar="NAME", help="a series or a pattern (default: the losses)")
    plot.add_argument("--log", action="store_true", help="use a logarithmic scale")
    plot.add_argument("--smooth", type=_weight, metavar="W", help="smoothing weight between 0 and 1, such as 0.9")
    plot.add_argument("--x", default="step", metavar="X", help="step, tokens, time or another series (default: step)")
    plot.add_argument("--marker", default="braille", choices=("braille", "fhd", "hd"), help="how lines are drawn")
    plot.add_argument("--width", type=_whole, metavar="N", help="columns (default: the terminal's)")
    plot.add_argument("--height", type=_whole, metavar="N", help="rows inside the frame")

    trace = verb("trace", "show where the time went", "chiplog trace latest -o trace.pftrace")
    _takes_run(trace)
    trace.add_argument("-o", dest="output", metavar="FILE", help="write a trace: .pftrace, .json (Chrome) or .svg")
    trace.add_argument("--summary", action="store_true", help="show the tables too (default without -o and --against)")
    trace.add_argument("--against", metavar="RUN", help="compare with another run, largest changes first")
    trace.add_argument("--step", type=float, metavar="N", help="the step to show (default: a typical one)")
    trace.add_argument("--rank", type=_whole, metavar="R", help="only this rank")
    trace.add_argument(
        "--add",
        action="append",
        default=[],
        metavar="FILE",
        help="merge a torch.profiler or jax.profiler trace; repeatable",
    )

    ui = verb("ui", "show the runs in the browser", "chiplog ui runs --port 8080")
    ui.add_argument("runs", nargs="?", metavar="DIR", help="where the runs are")
    ui.add_argument("--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)")
    ui.add_argument("--port", type=_whole, default=0, metavar="N", help="port to listen on (default: 0, any free port)")
    ui.add_argument("--no-browser", action="store_true", help="print the address, and do not open a browser")
    ui.add_argument(
        "--allowed-host", action="append", default=[], metavar="NAME:PORT", help="accept this Host header too"
    )
    ui.add_argument("--token-file", metavar="FILE", help="read the token from a file that only you can read")
    ui.add_argument("--export", metavar="FOLDER", help="write a page that opens from disk instead of serving one")
    ui.add_argument(
        "--choose", action="append", default=[], metavar="RUN", help="with --export: include only this run; repeatable"
    )

    watch = verb("watch", "show the runs in the terminal, live", "chiplog watch latest")
    watch.add_argument("run", nargs="?", metavar="RUN", help="the run to show (default: the list of runs)")
    watch.add_argument("--panel", default="charts", choices=PANELS, help="panel to start with (default: charts)")
    watch.add_argument("--once", action="store_true", help="print one frame and exit")


def _taking(verb: _Verb) -> None:
    """The verbs that hand a run's data to other programs and other people."""
    report = verb("report", "write a run's datasets, plots and report", "chiplog report latest -o outputs")
    _takes_run(report)
    report.add_argument(
        "-o", dest="output", type=Path, metavar="DIR", help="output directory (default: files/ of the run)"
    )
    report.add_argument("--only", type=_words, metavar="STAGES", help="write only these, of data, plots, text, report")
    report.add_argument(
        "--data", type=_words, default=["h5"], metavar="FORMATS", help="h5, nc, parquet, csv (default: h5)"
    )
    report.add_argument("--pictures", type=_words, default=["png"], metavar="FORMATS", help="png, svg (default: png)")
    report.add_argument(
        "--warmup", type=_warmup, default=0, metavar="W", help="draws to discard: a count (100) or a fraction (0.05)"
    )
    report.add_argument("--show", action="store_true", help="print the text plots")
    report.add_argument("--verbose", action="store_true", help="list every file")

    compare = verb("compare", "show how runs differ", "chiplog compare baseline latest -o comparison.html")
    compare.add_argument("runs", nargs="+", metavar="RUN", help="the runs; the first is the baseline")
    compare.add_argument(
        "--metric", action="append", default=[], metavar="NAME", help="only this metric, or a pattern; repeatable"
    )
    compare.add_argument("-o", dest="output", metavar="PATH", help="write to a .md or .html file")

    cat = verb("cat", "write a run's records as JSON Lines", "chiplog cat latest --kind eval")
    _takes_run(cat)
    cat.add_argument("--kind", metavar="KIND", help="only records of this kind: step, eval, event, alert, ...")
    cat.add_argument("--rank", type=_whole, metavar="R", help="only the records of this rank")

    export = verb(
        "export", "write a run as CSV, Parquet, JSON or HDF5", "chiplog export latest --to parquet -o run.parquet"
    )
    _takes_run(export)
    export.add_argument("--to", required=True, choices=("csv", "parquet", "json", "h5", "nc"), help="the format")
    export.add_argument(
        "-o",
        dest="output",
        metavar="PATH",
        help="a file, a directory, or - for stdout; a directory for h5 and nc (default: named after the id)",
    )


def _keeping(verb: _Verb) -> None:
    """The verbs that maintain runs."""
    sync = verb("sync", "deliver to services what they do not have yet", "chiplog sync latest --to wandb")
    sync.add_argument("runs", nargs="*", metavar="RUN", help="the runs (default: all that use a service)")
    sync.add_argument("--to", action="append", default=[], metavar="SINK", help="deliver only to this sink; repeatable")
    sync.add_argument("--follow", action="store_true", help="keep delivering until the run ends")
    sync.add_argument("--quiet", action="store_true", help="do not show progress")

    compact = verb("compact", "turn closed journals into Parquet", "chiplog compact latest --prune")
    compact.add_argument("runs", nargs="*", metavar="RUN", help="the runs (default: all)")
    compact.add_argument("--prune", action="store_true", help="also compress journals that are finished and delivered")
    compact.add_argument("--quiet", action="store_true", help="print only errors")

    doctor = verb("doctor", "check the installation, the directory and a run", "chiplog doctor latest")
    doctor.add_argument("run", nargs="?", metavar="RUN", help="check this run too")

    demo = verb("demo", "train a small language model, as an example", "chiplog demo --seconds 10")
    demo.add_argument(
        "--seconds", type=float, default=20.0, metavar="S", help="approximate duration in seconds (default: 20)"
    )


def _takes_run(verb: argparse.ArgumentParser, metavar: str = "RUN") -> None:
    verb.add_argument("run", nargs="?", default="latest", metavar=metavar, help="the run (default: latest)")


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _warmup(text: str) -> int | float:
    try:
        return _whole(text) if text.isdecimal() else float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a count nor a fraction") from None


def _whole(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not an integer")
    return int(text)


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = -1.0
    if not 0 <= weight < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 up to, but not including, 1")
    return weight
