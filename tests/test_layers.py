"""Who may import whom: the table of docs/design.md, held as data."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import chiplog
from chiplog.sinks import registry

SOURCE = Path(chiplog.__file__).parent

# Each layer may import those behind it. Siblings do not import each other, but see `TOGETHER`.
LAYERS = [
    {"cli", "commands", "__main__", "frontends", "compat", "integrations", "demo"},
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
        "control_characters": set(),
        "errors": {"control_characters"},
        "clock": set(),
        "suggestions": set(),
        "identity": {"records"},
        "protocols": {"records"},
        "operating_system": {"errors"},
        "paths": {"operating_system"},
        "files": {"operating_system", "paths"},
        "settings": {"errors", "files", "records", "suggestions"},
        "background": {"messages"},
        "progress_bars": {"background"},
        "messages": {"control_characters", "progress_bars"},
        "values": {"records", "messages"},
        "display": {"values", "messages"},
        "tracing": {"records", "values", "messages"},
        "device_hooks": {"protocols", "tracing"},
        "journals": {"protocols", "records"},
        "engine": {
            "background", "clock", "device_hooks", "errors", "files", "identity", "journals", "messages", "paths", "protocols",
            "records", "suggestions", "tracing", "values",
        },
        "run": {"background", "engine", "identity", "protocols", "records", "tracing", "values"},
        "current_spans": {"run", "tracing"},
    },
    "metrics": {"catalog": set(), "step_values": set(), "rules": {"catalog", "moe", "smoothing", "speed_of_light"}, "ranks": {"catalog", "moe"}},
    "runtime": {"ranks": set(), "devices": set(), "process": set()},
    "store": {
        "layout": set(),
        "arrow": set(),
        "protobuf": set(),
        "crc32c": set(),
        "manifest": {"layout"},
        "spans": {"arrow"},
        "journal": {"layout", "manifest"},
        "perfetto": {"protobuf"},
        "printed_lines": {"journal", "layout"},
        "points": {"arrow", "contents", "journal", "layout", "parts"},
        "parts": {"arrow", "contents", "journal", "layout", "points", "spans"},
        "contents": {"journal", "layout", "manifest", "parts", "points", "printed_lines", "spans"},
        "step_breakdown": {"points", "spans"},
        "goodput_input": {"points", "runs", "spans"},
        "run_arrays": {"contents", "goodput_input", "points", "runs", "spans", "step_breakdown"},
        "runs": {"contents", "journal", "layout", "manifest", "parts", "reader"},
    },
    "sinks": {
        "shared": set(),
        "adapters": {"shared"},
        "delivery": {"adapters", "registry", "shared"},
        "registry": {"adapters"},
        **{name: {"shared"} for name in registry.BUILT_IN},
        "json": {"shared", "jsonl"},
    },
}  # fmt: skip
# Rooms of core and store that import each other, by different modules; a new one fails.
CYCLES = [
    {"background", "messages", "progress_bars"},  # every message spares progress bars
    {"contents", "parts", "points"},  # a part is written from the tail, and read with it
    {"goodput_input", "reader", "run_arrays", "runs"},  # lists of runs open them
]
# What front ends may import of the rest, and which other modules they still do; this list may only get shorter.
DOORS = (
    "assembly", "core.clock", "core.display", "core.errors", "core.identity", "core.messages", "core.operating_system",
    "core.paths", "core.protocols", "core.records", "core.run", "core.settings", "core.values", "metrics",
    "runtime.ranks.detect", "sinks.registry", "version", "views",
)  # fmt: skip
INSIDE = {
    "ezpz": {
        "runtime.devices.accelerator", "runtime.devices.flop_counter", "runtime.devices.pending_values",
        "runtime.ranks.reduce_options", "sinks.adapters.backend_calls", "sinks.adapters.backends",
        "sinks.adapters.direct_calls", "sinks.csv.sink", "sinks.jsonl", "sinks.mlflow.login",
        "sinks.shared.append_file", "sinks.shared.dotenv", "sinks.shared.history_updates", "sinks.shared.project_name", "sinks.shared.service_metrics",
    },
    "kempnerforge": {
        "runtime.devices.accelerator", "runtime.devices.memory", "sinks.adapters.direct_calls",
        "sinks.delivery.destinations", "sinks.wandb.client", "sinks.wandb.confirmation", "sinks.wandb.login", "store.layout",
    },
    "surogate": {
        "sinks.console.layout", "sinks.console.sink", "sinks.json", "store.layout",
    },
    "tunix": {
        "core.background.forks", "core.files.writing", "core.tracing.idle_span", "core.tracing.span",
        "core.tracing.timelines", "core.tracing.tracer", "runtime.devices.flop_counter",
        "runtime.devices.pending_values", "runtime.devices.watcher", "sinks.adapters.factories", "sinks.wandb.login",
        "sinks.wandb.options", "store.perfetto.trace", "store.spans.span",
    },
}  # fmt: skip
LATE = 45  # imports of our own modules inside functions
ENVIRONMENT = {"assembly", "cli", "commands", "frontends", "compat", "integrations"}  # who may read os.environ


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
    assert cycles(modules()) == set()


def cycles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """The groups of modules that reach each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in graph.get(waiting.pop(), set()) - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    reach = {name: reached(name) for name in graph}
    return {
        frozenset(other for other in reach[name] if name in reach.get(other, ()))
        for name in graph
        if name in reach[name]
    }


def test_rooms_that_import_each_other_are_these() -> None:
    """The list may only get shorter."""
    rooms: dict[str, set[str]] = {}
    for name, imported in modules().items():
        layer, _, rest = name.partition(".")
        if layer in ("core", "store") and rest:
            room = f"{layer}.{rest.partition('.')[0]}"
            theirs = {".".join(one.split(".")[:2]) for one in imported if one.startswith(f"{layer}.")}
            rooms.setdefault(room, set()).update(theirs - {room})
    assert sorted(sorted(one.partition(".")[2] for one in cycle) for cycle in cycles(rooms)) == sorted(
        map(sorted, CYCLES)
    )


def test_front_ends_come_in_by_the_doors() -> None:
    """What one needs of the engine is a public method; the exceptions are listed, and there is no new one."""
    inside: dict[str, set[str]] = {}
    for name, imported in modules().items():
        layer, _, rest = name.partition(".")
        if layer == "frontends" and rest:
            theirs = {one for one in imported if one not in ("", "__init__") and not one.startswith("frontends")}
            shut = {one for one in theirs if not any(f"{one}.".startswith(f"{door}.") for door in DOORS)}
            inside.setdefault(rest.partition(".")[0], set()).update(shut)
    assert {name: shut for name, shut in inside.items() if shut} == INSIDE


def test_few_imports_are_inside_functions() -> None:
    """An import belongs at the top, unless what it loads is heavy, optional, or needed by few runs."""
    late = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        for function in ast.walk(ast.parse(path.read_text()))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "chiplog"
    ]
    assert len(set(late)) <= LATE, late


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
        "__version__", "attach", "finish", "init", "log", "mirror", "read", "register_backend", "run", "runs",
        "span", "stopwatch",
    ]  # fmt: skip
    for name in chiplog.__all__:
        getattr(chiplog, name)
