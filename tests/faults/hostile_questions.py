"""What is asked of a hostile run: every verb that reads, with every option, and every route of the page.

`test_hostile_runs.py` compares these with the command line and the routes, so that a new one joins them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

# Options that change nothing in what is read of a run, and the verbs that read none.
UNASKED = {"--help", "--host", "--port", "--no-browser", "--allowed-host", "--token-file", "--follow", "--set"}
NO_READERS = {"demo", "run", "import"}
SLOW = ("wandb", "mlflow", "trackio")  # packages that take seconds: asked of every sixth run
LISTENED = 0.3  # s to /api/live, which has no end
SEARCHES = (
    "lr>0.001 and -state=finished or x",
    "loss>0 or train/loss~1 or tag=a*",
    "started>2026-01-01 ran<1d age>1s",
    "name=*[x]* <script>",
)


def verbs(run: Path, out: Path) -> Iterator[list[str]]:
    """Every command that reads a run."""
    for words in (*_lists(), *_looks(str(run)), *_files(str(run), out)):
        yield ["--dir", str(run.parents[1]), *words]


def _lists() -> Iterator[list[str]]:
    yield ["ls"]
    yield ["ls", "--json"]
    yield ["ls", "p*", "--sort", "loss"]
    yield ["ls", "--columns", "loss,train/loss,lr,name,tags,step,started"]
    yield ["ls", "--sort", "train/loss", "--reverse", "--last", "1", "--tag", "a"]
    for where in SEARCHES:
        yield ["ls", "--where", where]
    yield ["watch", "--once"]


def _looks(path: str) -> Iterator[list[str]]:
    yield ["show", path]
    yield ["show", path, "--all"]
    yield ["show", path, "--json"]
    yield ["show", path, "--ranks"]
    yield ["show", path, "--ranks", "--of", "train/loss"]
    for panel in ("charts", "system", "ranks", "alerts", "samples", "console", "overview"):
        yield ["watch", path, "--once", "--panel", panel]
    yield ["tail", path, "--once", "-n", "100"]
    yield ["tail", path, "--once", "--console"]
    yield ["cat", path]
    yield ["cat", path, "--kind", "step", "--rank", "0"]
    yield ["doctor", path]
    yield ["plot", path, "--marker", "braille"]
    yield ["plot", path, "*", "--log", "--smooth", "0.9", "--marker", "hd"]
    for x in ("time", "tokens", "train/loss"):
        yield [
            "plot",
            f"{path},{path}",
            "train/*",
            "loss",
            "--x",
            x,
            "--marker",
            "fhd",
            "--width",
            "40",
            "--height",
            "5",
        ]
    yield ["trace", path]
    yield ["trace", path, "--summary", "--step", "1"]
    yield ["trace", path, "--rank", "0"]
    yield ["trace", path, "--against", path]
    yield ["compare", path, path]
    yield ["compare", path, path, "--metric", "*loss"]


def _files(path: str, out: Path) -> Iterator[list[str]]:
    for ending in ("pftrace", "json", "svg"):
        yield ["trace", path, "-o", str(out / f"trace.{ending}")]
    yield ["trace", path, "-o", str(out / "merged.pftrace"), "--add", str(out / "trace.json")]
    for ending in ("csv", "json", "parquet"):
        yield ["export", path, "--to", ending, "-o", str(out / f"table.{ending}")]
    for form in ("h5", "nc", "tensorboard", *SLOW):
        yield ["export", path, "--to", form, "-o", str(out / form)]
    for ending in ("html", "md"):
        yield ["compare", path, path, "-o", str(out / f"compare.{ending}")]
    yield ["report", path, "-o", str(out / "report"), "--only", "data,text,report", "--data", "csv", "--show"]
    yield [
        "report",
        path,
        "-o",
        str(out / "plots"),
        "--only",
        "plots",
        "--pictures",
        "svg",
        "--warmup",
        "1",
        "--verbose",
    ]
    yield ["ui", "--export", str(out / "page")]
    yield ["ui", "--export", str(out / "page-of-one"), "--choose", path, "--compact"]
    yield ["sync", path]
    yield ["sync", path, "--to", "csv", "--quiet"]
    yield ["compact", path, "--quiet", "--beside"]
    yield ["compact", path, "--prune"]
    yield ["show", path]


def routes(names: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    """Every route of the page; `run` is filled in."""
    yield "/api/runs", {"columns": msgspec.json.encode([f"v:{name}" for name in names[:5]]).decode()}
    yield "/api/columns", {}
    yield "/api/live", {}
    for text in (*SEARCHES, *(f'"{name[:100]}">0' for name in names[:4])):
        yield "/api/search", {"q": text}
    yield "/api/run", {"brief": "1"}
    for path in ("run", "trace", "timeline", "goodput", "perfetto", "console", "samples", "file"):
        yield f"/api/{path}", {}
    for name in names[:4]:
        for path in ("matrix", "ranks"):
            yield f"/api/{path}", {"name": name}
        yield "/api/samples", {"table": name, "find": "a", "column": "a"}
        yield "/api/points", {"series": name}
        for x in ("step", "time", "relative", "tokens", "epoch", "flops", f"metric:{name}"):
            for drawn in ({"log": "1"}, {"smooth": "0.9", "low": "0", "high": "1e300", "n": "10"}):
                yield "/api/series", {"series": name, "x": x, **drawn}
