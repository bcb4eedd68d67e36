"""The command line, `chiplog` or `python -m chiplog`: finds the verbs in `commands` and runs one."""

from __future__ import annotations

import os
import sys
from argparse import REMAINDER, SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from chiplog.assembly import runs_dir
from chiplog.commands.shared import foreign_paths
from chiplog.core import display, messages
from chiplog.core.errors import BadSetting, ChiplogError
from chiplog.core.suggestions import did_you_mean
from chiplog.version import VERSION

EXTRAS = {"numpy": "read", "pyarrow": "read", "h11": "ui"}  # the extra that installs each optional package
AS_THEY_ARE = (
    "import",
    "compact",
    "sync",
    "demo",
)  # verbs that take no files from other trackers, or read them on their own
_REMOVE = "a run is a directory, which `chiplog ls --json` names: delete it with `rm -r`; "
INSTEAD = {"rm": _REMOVE, "delete": _REMOVE, "remove": _REMOVE, "version": "`chiplog --version` shows the version; "}
EXAMPLES = """\
examples:
  chiplog demo                              train a small model and show what was recorded
  chiplog ls                                list the runs in ./runs, newest last
  chiplog ls --where 'lr>0.001' --sort loss list runs with a high learning rate, the best first
  chiplog show                              show the newest run
  chiplog tail 261115                       follow the run whose id starts with 261115
  chiplog plot latest 'train/*loss' --log   draw curves in the terminal
  chiplog trace latest -o t.pftrace         write a trace for ui.perfetto.dev
  chiplog run --as wandb -- python train.py record what a script logs to W&B
  chiplog ui                                show the runs in the browser, live
  chiplog watch                             show them in the terminal, over ssh
  chiplog cat latest --kind eval | jq .     print records as JSON Lines
  chiplog export latest --to csv -o x.csv   write a table for a spreadsheet
  chiplog import wandb mlruns               import runs recorded by other trackers
  chiplog sync latest --to mlflow           send a service the records it is missing
  chiplog report latest                     write datasets, plots and a report
  chiplog compare RUN OTHER                 show what differs, and whether it is more than noise
  chiplog doctor latest                     show what is wrong, and what to do

RUN is a path (including another tracker's files), an id or its start, a name, `latest`, a project (for its newest run),
or any of these within a project: tiny-lm/latest. Verbs that take several runs also accept patterns: 'tiny-lm/*'.
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
        if error.name not in EXTRAS:
            raise
        messages.say(f"this needs the {error.name!r} package: pip install 'chiplog[{EXTRAS[error.name]}]'")
    except BrokenPipeError:
        # The reader of our output is gone; the interpreter must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        messages.say(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return 130
    return 2


def parser(words: Collection[str] | None = None) -> ArgumentParser:
    """The command line: all of it, or with the arguments of only those verbs that are among `words`.

    A verb that is not loaded costs nothing, however much it imports.
    """
    top = _OneLineParser(
        prog="chiplog",
        description="Inspect training runs.",
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"chiplog {VERSION}", help="show the version and exit")
    top.add_argument("--dir", metavar="DIR", help="where the runs are (default: CHIPLOG_DIR, settings, or runs)")
    anywhere = _VerbParser(add_help=False)
    anywhere.add_argument("--dir", metavar="DIR", default=SUPPRESS, help="where the runs are")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_VerbParser)
    for name, file in _verbs().items():
        summary = _summary(file)
        verb = verbs.add_parser(
            name, help=summary[0].lower() + summary[1:], description=f"{summary}.", parents=[anywhere]
        )
        if words is None or name in words:
            module = import_module(_module(file))
            verb.epilog = f"example: {module.EXAMPLE}"
            module.arguments(verb)
            verb.set_defaults(run_verb=module.run)
    return top


def _run(argv: Sequence[str] | None) -> int:
    words = sys.argv[1:] if argv is None else argv
    args = _parse(words)
    if args is None:
        return 0
    args.root = runs_dir(args.dir).expanduser()
    args.environ = dict(os.environ)
    args.screen = display.screen(sys.stdout, args.environ)
    args.alone = argv is None  # the process exists for this command only
    with nullcontext() if args.verb in AS_THEY_ARE else foreign_paths.resolved(args):
        code: int = args.run_verb(args)
    sys.stdout.flush()
    return code


def _parse(words: Sequence[str]) -> Namespace | None:
    """The arguments; None without a verb, which prints the help."""
    verbs = _verbs()
    verb = _first_word(words)
    if verb == "help":  # `help show` is `show --help`
        words = [word for word in words if word != "help"]
        if (verb := _first_word(words)) is not None:
            words.append("--help")
    if verb is not None and verb not in verbs:
        hint = INSTEAD.get(verb) or did_you_mean(verb, verbs)
        raise BadSetting(f"no verb {verb!r}; {hint}available: {', '.join(verbs)}")
    line = parser(words)
    if verb is None and not {"-h", "--help", "--version"} & set(words):
        line.print_help()
        return None
    return line.parse_args(_joined(words))


class _OneLineParser(ArgumentParser):
    """A parser whose mistakes are one line, with the usage of the verb they belong to."""

    def error(self, message: str) -> NoReturn:
        usage = self._get_formatter()
        usage.add_usage(None, self._get_positional_actions(), [], "")
        words = " ".join(usage.format_help().split())
        raise BadSetting(f"{message}; usage: {words} [OPTIONS]; {self.prog} --help lists the options")


class _VerbParser(_OneLineParser):
    """The parser of a verb, which takes options between positional arguments, too: `plot RUN --log NAME`."""

    _inside = False  # whether argparse, which parses the two kinds separately, calls this itself

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        if self._inside or any(one.nargs == REMAINDER for one in self._get_positional_actions()):
            parsed, rest = super().parse_known_args(args, namespace)
        else:
            self._inside = True
            try:
                parsed, rest = self.parse_known_intermixed_args(args, namespace)
            finally:
                self._inside = False
        if rest and not self._inside:
            options = [name for action in self._actions for name in action.option_strings]
            hint = did_you_mean(rest[0].partition("=")[0], options, 1).strip() if rest[0].startswith("--") else ""
            self.error(f"unrecognized arguments: {' '.join(rest)}" + (f" ({hint})" if hint else ""))
        return parsed, rest


def _joined(words: Sequence[str]) -> list[str]:
    """The words, with `--sort -loss` as one: argparse would take the second for an option."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] == "--sort" and word[:1] == "-" != word[1:2] and word not in ("-n", "-h"):
            joined[-1] = f"--sort={word}"
        else:
            joined.append(word)
    return joined


def _first_word(words: Sequence[str]) -> str | None:
    """The word in the place of the verb."""
    value = False  # whether the next word belongs to an option
    for word in words:
        if not value and not word.startswith("-"):
            return word
        value = word == "--dir"
    return None


def _verbs() -> dict[str, Path]:
    """The file of each verb, by name: `commands/ls.py`, `commands/show/verb.py`, `commands/import_.py`."""
    commands = Path(__file__).parent / "commands"
    files = [*commands.glob("[!_]*.py"), *commands.glob("*/verb.py")]
    return dict(sorted((file.parent.name if file.stem == "verb" else file.stem.rstrip("_"), file) for file in files))


def _summary(file: Path) -> str:
    """The first line of a verb's docstring, read without importing what the verb needs."""
    with file.open(encoding="utf-8") as source:
        return source.readline().strip('". \n')


def _module(file: Path) -> str:
    return ".".join(("chiplog", *file.relative_to(Path(__file__).parent).with_suffix("").parts))
