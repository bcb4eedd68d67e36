"""`chiplog ui`: the runs of a directory in the browser."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from chiplog.core import notes
from chiplog.core.errors import BadSetting, MissingPackage, RunNotFound


def run(args: Namespace) -> int:
    try:
        from chiplog.views.web import guard, server
    except ImportError as error:
        raise MissingPackage(f"the page needs the package {error.name!r}: pip install 'chiplog[ui]'") from None

    root = Path(args.runs).expanduser() if args.runs else args.root
    if not root.is_dir():
        if args.runs or args.export:
            raise RunNotFound(f"there is no directory {str(root)!r}; give the one that chiplog.init(dir=...) had")
        notes.say(f"there is no {str(root)!r} yet; runs are shown when they begin")
    if args.export:
        from chiplog.views.web.static import export

        written = export(root, Path(args.export), args.choose)
        print(f"{len(written)} runs in {Path(args.export) / 'index.html'}")
        return 0
    token = _token(args.token_file)
    if not guard.is_loopback(args.host):
        if token is None:
            raise BadSetting(
                f"--host {args.host} would show the runs to others: give a token of yours with --token-file, in a "
                "file that only you can read, and the names the server goes by with --allowed-host"
            )
        notes.say(f"whoever reaches {args.host} and has the token sees all runs, and what travels is not encrypted")
    token = token or guard.new_token()
    listening = server.listen(args.host, args.port)
    address = server.address(args.host, listening.getsockname()[1], token)

    def ready() -> None:
        print(address, flush=True)
        if not args.no_browser:
            _open(address, args.environ)

    async def serve() -> None:
        task = asyncio.current_task()
        assert task is not None
        for sign in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(sign, task.cancel)
        try:
            await server.serve(
                root, listening, token=token, cache=cache_dir(args.environ), hosts=args.allowed_host, ready=ready
            )
        except asyncio.CancelledError:
            pass

    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        pass
    return 0


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Where views keep what they derive: never in a run."""
    base = environ.get("XDG_CACHE_HOME") or ""
    return Path(base if base.startswith("/") else "~/.cache").expanduser() / "chiplog"


def _token(file: str | None) -> str | None:
    """A token that the user has chosen; never on the command line, which everybody on the machine can read."""
    if not file:
        return None
    path = Path(file).expanduser()
    if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise BadSetting(f"others may read {path}: chmod 600 {path}")
    token = path.read_text().strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable() or " " in token:
        raise BadSetting("a token has at least 16 letters, digits or signs; `openssl rand -hex 16` makes one")
    return token


def _open(address: str, environ: Mapping[str, str]) -> None:
    """In a browser, where there is one to see."""
    if environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY") or os.name == "nt" or os.uname().sysname == "Darwin":
        import threading
        import webbrowser

        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
