"""`python -m bench`: measure, print a table, write JSON, exit with 1 when a bar is missed."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path

from bench import (  # noqa: F401  each adds its rows
    boards,
    calls,
    dashboards,
    endings,
    foreign,
    front_ends,
    integrations,
    kills,
    large_runs,
    loops,
    meters,
    pages,
    prints,
    probes,
    ranks,
    rules,
    services,
    spans,
    stand_ins,
    starts,
    stores,
)
from bench.peers import PEERS, TRACERS
from bench.report import LATEST, Result, line, picture
from bench.rows import ROWS


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", default="", help=f"rows to run, comma separated: {', '.join(ROWS)}")
    parser.add_argument("-o", "--output", type=Path, default=LATEST)
    args = parser.parse_args()
    wanted = [name for name in args.only.split(",") if name] or list(ROWS)
    unknown = [name for name in wanted if name not in ROWS]
    if unknown:
        parser.error(f"no row {unknown[0]!r}; available: {', '.join(ROWS)}")
    result = Result(
        about={
            "date": time.strftime("%Y-%m-%d"),
            "machine": f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "versions": sorted({package for peer in (PEERS | TRACERS).values() for package in peer.packages}),
        },
        titles={},
        rows={},
    )
    args.output.parent.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        began = time.monotonic()
        result.titles[name] = (ROWS[name].__doc__ or name).splitlines()[0]
        print(f"{name}: {result.titles[name]}", flush=True)
        result.rows[name] = []
        for figure in ROWS[name]():
            result.rows[name].append(figure)
            print(f"  {line(figure)}", flush=True)
        print(f"  ({time.monotonic() - began:.0f} s)", flush=True)
        args.output.write_text(json.dumps(result.plain(), indent=2) + "\n")  # what is measured is not lost to ^C
    if {"log", "paced"} <= result.rows.keys():
        args.output.with_suffix(".svg").write_text(picture(result))
    figures = [figure for row in result.rows.values() for figure in row]
    missed = [figure for figure in figures if not figure.met]
    print(f"\n{len(figures)} figures, {len(missed)} bars missed; written to {args.output}")
    for figure in missed:
        print(f"  missed: {line(figure)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
