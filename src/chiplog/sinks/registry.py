"""The sinks by name: built-in ones, those of other packages, and objects.

A local sink is cheap and runs on a thread of the training process. A service talks to a server, or through a package of
its own, so it runs in the relay process (`sinks/delivery/relay.py`), and the training process does not even import it.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from chiplog.core.errors import BadSetting, MissingPackage, UnknownSink
from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.core.records import Plain
from chiplog.core.suggestions import did_you_mean
from chiplog.sinks.adapters import backends, factories

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Options = Mapping[str, Plain]
Opener = Callable[..., Sink]


class Service(NamedTuple):
    """What is known about a service without importing it."""

    package: str = ""  # that it needs
    no_wheel_from: tuple[int, ...] = ()  # the first Python for which its package has no wheel
    login: str = ""  # a module of ours whose `check(environ, options)` raises `Refused` before the service is imported
    paths: tuple[str, ...] = ()  # its variables that name a path, which the relay needs as an absolute one
    quiet: Mapping[str, str] = {}  # variables that keep its package from reporting to its makers
    inside: bool = False  # it writes no files, or only in the run directory; others write where the user says


# Each is a module here, or a folder with a module `sink`, with a function `open_sink(identity, environ, **options)`.
LOCAL = ("console", "csv", "jsonl", "json", "tensorboard", "memory", "perfetto")
SERVICES: dict[str, Service] = {
    "aim": Service("aim", no_wheel_from=(3, 13)),
    "mlflow": Service("mlflow", quiet={"MLFLOW_DISABLE_TELEMETRY": "true"}),
    "otel": Service("opentelemetry.proto", inside=True),
    "prometheus": Service("prometheus_client", inside=True),
    "trackio": Service("trackio"),
    "wandb": Service(
        "wandb",
        login="wandb.login",
        paths=(
            "WANDB_DIR",
            "WANDB_DATA_DIR",
            "WANDB_CACHE_DIR",
            "WANDB_CONFIG_DIR",
            "WANDB_ARTIFACT_DIR",
            "WANDB_IDENTITY_TOKEN_FILE",
            "WANDB_CREDENTIALS_FILE",
            "NETRC",
        ),
        quiet={"WANDB_ERROR_REPORTING": "false"},
        inside=True,
    ),
}
QUIET = {variable: value for service in SERVICES.values() for variable, value in service.quiet.items()}
BUILT_IN = (*LOCAL, *SERVICES)
NONE = "none"
NO_CONSOLE = "-console"
GROUP, SERVICE_GROUP = "chiplog.sinks", "chiplog.services"  # entry points of other packages

_registered: dict[str, Callable[..., object]] = {}


def names() -> list[str]:
    """All names of sinks."""
    return [*BUILT_IN, *_registered, *_foreign(GROUP), *_foreign(SERVICE_GROUP), NONE]


def is_service(name: str) -> bool:
    """Whether a sink runs in the relay; raises for an unknown name, and if its package is missing."""
    if name in LOCAL or name in _registered:
        return False
    if name in SERVICES:
        package = SERVICES[name].package
        if package and not is_installed(package):
            raise _missing(name, package)
        return True
    if name in _foreign(SERVICE_GROUP):
        return True
    if name in _foreign(GROUP):
        return False
    raise unknown(name)


def with_console(sinks: Mapping[str, Options], *, add: bool = True) -> dict[str, Options]:
    """These sinks, plus the console if one is a service, unless `-console` is among them."""
    kept = {name: options for name, options in sinks.items() if name != NO_CONSOLE}
    services = any(name in SERVICES or (name not in LOCAL and name in _foreign(SERVICE_GROUP)) for name in kept)
    if add and services and "console" not in kept and NO_CONSOLE not in sinks and NONE not in sinks:
        return {"console": {}, **kept}
    return kept


@cache
def service_options(name: str) -> tuple[str, ...]:
    """The options of a service: the keywords of its `open_sink`, read from its source without importing its package."""
    spec = find_spec(f"chiplog.sinks.{name}")
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"chiplog.sinks.{name}.sink")
    if spec is None or spec.origin is None:
        raise unknown(name)
    opener = next(
        node
        for node in ast.parse(Path(spec.origin).read_bytes()).body
        if isinstance(node, ast.FunctionDef) and node.name == "open_sink"
    )
    return tuple(argument.arg for argument in [*opener.args.args[2:], *opener.args.kwonlyargs])


def check_options(name: str, options: Options) -> None:
    """Raise for an option that a built-in service does not have, without importing it."""
    if name in SERVICES and options:
        _check(name, options, service_options(name))


def check_ready(name: str, options: Options, environ: Mapping[str, str]) -> None:
    """Raise `Refused` for a service that cannot work as configured, without importing its package."""
    if name in SERVICES and SERVICES[name].login:
        import_module(f"chiplog.sinks.{SERVICES[name].login}").check(environ, options)


def register_backend(name: str, backend: Callable[..., object]) -> None:
    """Make `sinks="name"` mean this class, or function that makes a backend; a later one replaces it.

    >>> chiplog.register_backend("mine", MyBackend)
    >>> run = chiplog.init(sinks={"mine": {"path": "mine.txt"}})
    """
    if not isinstance(name, str) or not name.strip() or "," in name:
        raise BadSetting(f"{name!r} is not a name for a backend: use a string without commas")
    if name in (*BUILT_IN, NONE):
        raise BadSetting(f"{name!r} is a built-in sink; register the backend under another name")
    if not callable(backend):
        raise BadSetting(f"{backend!r:.200} is not a backend: register its class, or a function that makes one")
    _registered[name] = backend


def open_named(name: str, options: Options, identity: Identity, environ: Mapping[str, str]) -> Sink:
    """Open a sink by name. If one of another package fails, the result is a sink that reports it."""
    if name in _registered:
        return factories.make(_registered[name], identity, options)
    opener = _opener(name)
    if isinstance(opener, type):  # a backend's class, from an entry point
        return factories.make(opener, identity, options)
    if options:
        _check(name, options, list(inspect.signature(opener).parameters)[2:])
    if name not in BUILT_IN and name in _foreign(GROUP):
        made = factories.FactoryThread(lambda: opener(identity, environ, **options), factories.factory_name(opener))
        return factories.MadeSink(made, identity)
    return opener(identity, environ, **options)


def open_service(name: str, options: Options, identity: Identity, environ: Mapping[str, str]) -> Sink:
    """Open a service on a thread of the training process; if it fails, `init` does not."""
    return factories.opened(lambda: open_named(name, options, identity, environ), identity)


def open_objects(things: Iterable[tuple[str | None, object]], identity: Identity) -> dict[str, Sink]:
    """Objects and factories as sinks, under the name passed with them, their own, or that of their class."""
    opened: dict[str, Sink] = {}
    for chosen, thing in things:
        sink = _object(thing, identity)
        late = isinstance(sink, factories.MadeSink) and not sink.opened
        name = chosen or _name(sink if late else factories.native(sink)) or _name(thing) or "backend"
        while name in opened:
            name += "-2"
        opened[name] = sink
    return opened


def _check(name: str, options: Options, names: Sequence[str]) -> None:
    for option in options:
        if option not in names:
            has = f"available: {', '.join(names)}" if names else "it has none"
            raise BadSetting(f"the {name!r} sink has no option {option!r}; {has}")


def _opener(name: str) -> Opener:
    if name in BUILT_IN:
        try:
            module = import_module(f"chiplog.sinks.{name}")
            if hasattr(module, "__path__"):
                module = import_module(f"chiplog.sinks.{name}.sink")
            opener: Opener = module.open_sink
        except ImportError as error:
            raise _missing(name, error.name) from error
        return opener
    for group in (GROUP, SERVICE_GROUP):
        if (entry := _foreign(group).get(name)) is not None:
            factory: Opener = entry.load()
            return factory
    raise unknown(name)


def _missing(name: str, package: str | None) -> MissingPackage:
    limit = SERVICES[name].no_wheel_from if name in SERVICES else ()
    if limit and sys.version_info >= limit:  # the extra of this name installs nothing here
        return MissingPackage(
            f"the {name!r} sink needs the {package!r} package, which has no wheel from Python "
            f"{'.'.join(map(str, limit))} on: use an older Python, or leave {name!r} out of the sinks"
        )
    return MissingPackage(f"the {name!r} sink needs the {package!r} package: pip install 'chiplog[{name}]'")


def unknown(name: str, more: Iterable[str] = ()) -> UnknownSink:
    """The error for a name that no sink has, with the choices, and `more` of the caller's own."""
    choices = [*dict.fromkeys((*names()[:-1], *more)), NONE]
    return UnknownSink(f"no sink named {name!r}; {did_you_mean(name, choices, 1)}available: {', '.join(choices)}")


def is_installed(package: str) -> bool:
    """Whether a package could be imported."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def _foreign(group: str) -> dict[str, EntryPoint]:
    """The entry points of other packages."""
    from importlib.metadata import entry_points  # 20 ms, and needed only for names that are not ours

    return {entry.name: entry for entry in entry_points(group=group)}


def _object(thing: object, identity: Identity) -> Sink:
    """The sink that a factory makes, on a thread of its own, or a wrapper around an object."""
    if isinstance(thing, factories.FactoryThread):
        return factories.MadeSink(thing, identity)
    return factories.make(thing, identity) if factories.is_factory(thing) else backends.wrap(thing, identity)


def _name(thing: object) -> str:
    """The lowercase name of an object; empty if it has none of its own."""
    if isinstance(thing, factories.FactoryThread):
        return "" if thing.factory.startswith("lambda") else thing.factory.lower()
    if isinstance(thing, (factories.Unopened, factories.MadeSink)):
        return ""
    name = getattr(thing, "name", None) or getattr(thing, "__name__", type(thing).__name__)
    return "" if name == "<lambda>" else str(name).lower()
