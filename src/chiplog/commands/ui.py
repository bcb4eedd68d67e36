"""Show the runs in the browser."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import sys
import threading
import webbrowser
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from pathlib import Path

from chiplog.assembly import foreign_runs
from chiplog.commands.shared.arguments import port
from chiplog.core import messages
from chiplog.core.errors import BadSetting, RunNotFound
from chiplog.core.operating_system import POSIX, hostname
from chiplog.core.paths import cache_dir

EXAMPLE = "chiplog ui runs --port 8080"


def arguments(parser: ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="DIR", help="directories of runs, or another tracker's files")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1, this machine only)"
    )
    parser.add_argument(
        "--port", type=port, default=0, metavar="N", help="port to listen on (default: 0, any free port)"
    )
    parser.add_argument("--no-browser", action="store_true", help="print the address instead of opening a browser")
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME:PORT",
        help="also accept requests for this host; repeatable",
    )
    parser.add_argument("--token-file", metavar="FILE", help="read the token from a file that only you can read")
    parser.add_argument(
        "--compact", action="store_true", help="compact your runs that ended uncompacted, such as killed ones"
    )
    parser.add_argument("--export", metavar="FOLDER", help="write a page that opens from disk instead of serving one")
    parser.add_argument(
        "--choose", action="append", default=[], metavar="RUN", help="with --export: include only this run; repeatable"
    )


def run(args: Namespace) -> int:
    root, *others = [Path(path).expanduser() for path in args.runs] or [args.root]
    others += args.more_roots
    for path in (root, *others):
        if path.is_file():
            raise RunNotFound(foreign_runs.no_runs_in(path))
        if not path.is_dir() and (args.runs or args.export):
            raise RunNotFound(
                f"no directory {str(path)!r}; this takes directories of runs, by default {args.root}, not single runs"
            )
    if not root.is_dir():
        messages.say(f"no directory {str(root)!r} yet; runs appear when they start")
    if args.export:
        from chiplog.views.web.export import export  # needs numpy, which the server loads after its first page

        written = export(root, Path(args.export), args.choose, others)
        print(f"{len(written):,} {'run' if len(written) == 1 else 'runs'} in {Path(args.export) / 'index.html'}")
        return 0
    from chiplog.views.web import auth, server, token_file  # needs h11, which the help does without

    token = _token(args.token_file)
    if not auth.is_loopback(args.host):
        if token is None:
            raise BadSetting(
                f"--host {args.host} exposes the runs to other machines: choose a token with --token-file (a file that "
                "only you can read), and list the server's host names with --allowed-host"
            )
        messages.say(f"anyone with the token who can reach {args.host} sees all runs; the connection is not encrypted")
    token = token or auth.new_token()
    listening = server.listen(args.host, args.port)
    address = server.address(args.host, listening.getsockname()[1], token)
    cache = cache_dir(args.environ)

    async def serve(entry: Path) -> None:
        def ready() -> None:
            _announce(address, entry, _tunnel(args.host, listening.getsockname()[1], args.environ))
            if not args.no_browser:
                _open(entry.as_uri(), args.environ)

        task = asyncio.current_task()
        assert task is not None
        if POSIX:  # elsewhere, ^C is an exception
            for sign in (signal.SIGTERM, signal.SIGHUP):
                asyncio.get_running_loop().add_signal_handler(sign, task.cancel)
        try:
            await server.serve(
                root,
                listening,
                token=token,
                cache=cache,
                hosts=args.allowed_host,
                others=others,
                compact=args.environ if args.compact else None,
                ready=ready,
            )
        except asyncio.CancelledError:
            pass

    still_reading = False
    with token_file.token_file(address, cache) as entry:
        try:
            asyncio.run(serve(entry))
        except KeyboardInterrupt:
            pass
        except server.StillReading:
            still_reading = True
    if still_reading:
        sys.stdout.flush()
        os._exit(0)  # threads in the middle of C++ code would abort the end of the interpreter
    return 0


def _token(file: str | None) -> str | None:
    """The user's own token; from a file, because other users of the machine can read the command line."""
    if not file:
        return None
    path = Path(file).expanduser()
    if POSIX and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadSetting(f"other users can read {path}: chmod 600 {path}")
    token = path.read_text().strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise BadSetting(
            "the token is too short: use at least 16 printable characters, for example from `openssl rand -hex 16`"
        )
    return token


def _tunnel(host: str, port: int, environ: Mapping[str, str]) -> str:
    """How to reach the page from the machine of somebody who is here over ssh."""
    if not environ.get("SSH_CONNECTION") or host != "127.0.0.1":
        return ""
    return f"from your own machine: ssh -L {port}:{host}:{port} {hostname()}, then open the address there\n"


def _announce(address: str, entry: Path, tunnel: str) -> None:
    """Print the address; with its token only on a terminal, because anything else may be a log that others read."""
    if sys.stdout.isatty():
        print(f"{address}\n{tunnel}Ctrl-C stops the server", flush=True)
        return
    print(address.partition("#")[0], flush=True)
    print(messages.clean(f"to enter, open {entry}, which only you can read"), flush=True)


def _open(address: str, environ: Mapping[str, str]) -> None:
    """Open a browser, if there is a display."""
    if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or sys.platform in ("darwin", "win32"):
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
