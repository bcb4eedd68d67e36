"""Who may import whom: the table of docs/design.md, held as data."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import chiplog

SOURCE = Path(chiplog.__file__).parent

# Each layer may import those behind it. Siblings do not import each other, but for views.
LAYERS = [
    {"cli", "commands", "__main__", "frontends", "integrations", "demo"},
    {"__init__"},
    {"assembly", "views"},
    {"sinks", "probes", "runtime"},
    {"store"},
    {"metrics"},
    {"core", "version"},
]
TOGETHER = {"views", "commands", "cli", "__main__", "demo"}  # parts of one thing, which may import each other
# Inside a layer: what a room may import of its neighbours. Rooms that are not named may import any of them.
ROOMS: dict[str, dict[str, set[str]]] = {
    "core": {
        "records": set(),
        "errors": set(),
        "clock": set(),
        "identity": {"records"},
        "protocols": {"records"},
        "progress_bars": {"background"},
        "messages": {"values", "progress_bars"},
        "values": {"records", "messages"},
        "display": {"values", "messages"},
        "tracing": {"records", "values", "messages", "run"},  # `run`: the current one
    },
    "metrics": {"catalog": set(), "step_values": set(), "rules": {"catalog", "moe", "smoothing", "speed_of_light"}, "ranks": {"catalog", "moe"}},
    "runtime": {"ranks": set(), "devices": set(), "process": set()},
    "store": {"layout": set(), "arrow": set(), "spans": {"arrow"}, "journal": {"layout", "runs"}},
    "sinks": {
        "shared": set(),
        "adapters": {"shared"},
        "delivery": {"adapters", "registry", "shared"},
        "registry": {"adapters"},
        "json": {"shared", "jsonl"},
        **{name: {"shared"} for name in (
            "aim", "console", "csv", "jsonl", "memory", "mlflow", "otel", "perfetto", "prometheus", "tensorboard", "trackio", "wandb",
        )},
    },
}  # fmt: skip
ENVIRONMENT = {"assembly", "cli", "commands", "frontends", "integrations"}  # who may read os.environ


def layer_of(part: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if part in layer)


def arrows() -> set[tuple[str, str, str]]:
    found = set()
    for path in SOURCE.rglob("*.py"):
        mine = path.relative_to(SOURCE).parts[0].removesuffix(".py")
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "chiplog":
                names = [node.module] if "." in node.module else [f"chiplog.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names if alias.name.split(".")[0] == "chiplog"]
            for name in names:
                parts = name.split(".")
                theirs = parts[1] if len(parts) > 1 else "__init__"
                if not (SOURCE / theirs).is_dir() and not (SOURCE / f"{theirs}.py").exists():
                    theirs = "__init__"
                found.add((mine, theirs, str(path.relative_to(SOURCE))))
    return found


def test_imports_point_only_downwards() -> None:
    """A new arrow against the flow fails here."""
    wrong = [
        f"{path}: {mine} → {theirs}"
        for mine, theirs, path in sorted(arrows())
        if mine != theirs and not (mine in TOGETHER and theirs in TOGETHER) and layer_of(theirs) <= layer_of(mine)
    ]
    assert wrong == []


def modules() -> dict[str, set[str]]:
    """Every module with those of ours that it imports, anywhere in it."""
    paths = {
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): path
        for path in SOURCE.rglob("*.py")
    }
    found: dict[str, set[str]] = {}
    for name, path in paths.items():
        imported: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "chiplog":
                base = node.module.removeprefix("chiplog").removeprefix(".")
                names = [f"{base}.{alias.name}".strip(".") for alias in node.names]
                imported |= {one if one in paths else base for one in names}
            elif isinstance(node, ast.Import):
                imported |= {
                    alias.name.removeprefix("chiplog.") for alias in node.names if alias.name.startswith("chiplog.")
                }
        found[name] = imported & paths.keys()
    return found


def test_rooms_import_only_those_neighbours() -> None:
    """A destination knows no other destination, and the vocabulary knows no engine."""
    wrong = []
    for name, imported in modules().items():
        layer, _, rest = name.partition(".")
        room = rest.partition(".")[0]
        allowed = ROOMS.get(layer, {}).get(room)
        if allowed is not None:
            theirs = {one.split(".")[1] for one in imported if one.startswith(f"{layer}.")} - {room}
            wrong += [f"{name} → {layer}.{other}" for other in sorted(theirs - allowed)]
    assert wrong == []


def test_no_modules_import_each_other() -> None:
    """Imports inside functions hide a cycle and do not mend it."""
    graph = modules()

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in graph[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    reach = {name: reached(name) for name in graph}
    cycles = {
        frozenset(other for other in reach[name] if name in reach[other]) for name in graph if name in reach[name]
    }
    assert cycles == set()


def test_every_part_has_a_layer() -> None:
    """A new folder must find its place in the table."""
    parts = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix == ".py" or path.is_dir()}
    known = set().union(*LAYERS) | {"__pycache__", "py.typed"}
    assert parts - known == set()


def test_the_environment_is_read_at_the_door_only() -> None:
    """Everybody else takes a mapping."""
    readers = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "os.environ" in path.read_text() or "getenv" in path.read_text()
    }
    assert {reader for reader in readers if reader.split("/")[0].removesuffix(".py") not in ENVIRONMENT} == set()


def test_importing_chiplog_imports_nothing_heavy() -> None:
    """Writing a run needs msgspec and the standard library."""
    code = (
        "import sys, chiplog, tempfile\n"
        "run = chiplog.init('p', sinks='console,csv,jsonl,json,tensorboard,memory', dir=tempfile.mkdtemp())\n"
        "run.log({'loss': 1.0}); run.eval({'loss': 1.0}); run.finish()\n"
        "print(','.join(sorted({name.split('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.splitlines()[-1].split(","))
    assert loaded & {"numpy", "pyarrow", "torch", "jax", "pandas", "polars", "xarray", "wandb"} == set()


def test_the_public_names_are_these() -> None:
    """Others rely on them; adding one is a decision."""
    assert sorted(chiplog.__all__) == [
        "ChiplogError", "Delivery", "Histogram", "Image", "Matrix", "Router", "Routing", "Run", "Stored", "Text", "TrackerBackend",
        "__version__", "attach", "finish", "init", "log", "read", "register_backend", "run", "runs",
        "span", "stopwatch",
    ]  # fmt: skip
    for name in chiplog.__all__:
        getattr(chiplog, name)
