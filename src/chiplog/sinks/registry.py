"""The sinks by name: ours, those of other packages, and objects as they are.

A local sink is cheap and runs on a thread of the training process. A service talks to somebody else through a package
of theirs, so it runs in the relay process (`relay.py`), and is not even imported beside the training.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from chiplog.core.errors import BadSetting, MissingPackage, UnknownSink
from chiplog.core.identity import Identity
from chiplog.core.protocols import Sink
from chiplog.sinks.adapters import backends, factories


class Service(NamedTuple):
    """What can be known of a service without importing it."""

    package: str  # the module its own one needs
    options: tuple[str, ...]  # the keywords of its `open_sink`
    login: str = ""  # a module of ours whose `check(environ, options)` knows whether it can work, before the import


# Each is a module here, or a folder with a module `sink`, with a function `open_sink(identity, environ, **options)`.
LOCAL = ("console", "csv", "jsonl", "json", "tensorboard", "memory", "perfetto")
SERVICES: dict[str, Service] = {
    "aim": Service("aim", ("repo", "experiment", "name")),
    "mlflow": Service("mlflow", ("experiment", "uri", "prefix", "artifacts", "system")),
    "otel": Service("opentelemetry.proto", ("endpoint",)),
    "prometheus": Service("prometheus_client", ("port", "host", "push", "job", "linger")),
    "trackio": Service("trackio", ("project", "name", "dir")),
    "wandb": Service(
        "wandb",
        (
            "id",
            "project",
            "entity",
            "group",
            "job_type",
            "name",
            "notes",
            "tags",
            "mode",
            "resume",
            "history",
            "settings",
            "config",
            "current",
        ),
        "wandb.login",
    ),
}
# What keeps the packages of services from reporting to their makers; for the processes that are only ours.
QUIET = {"WANDB_ERROR_REPORTING": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
# Variables that name a place: where the training is, which is not where the relay is.
PLACES = (
    "WANDB_DIR",
    "WANDB_DATA_DIR",
    "WANDB_CACHE_DIR",
    "WANDB_CONFIG_DIR",
    "WANDB_ARTIFACT_DIR",
    "WANDB_IDENTITY_TOKEN_FILE",
    "WANDB_CREDENTIALS_FILE",
    "NETRC",
)
BUILT_IN = (*LOCAL, *SERVICES)
NONE = "none"
GROUP, SERVICE_GROUP = "chiplog.sinks", "chiplog.services"  # entry points of other packages

Opener = Callable[..., Sink]

_registered: dict[str, Callable[..., Any]] = {}


def names() -> list[str]:
    """All names that can be asked for."""
    return [*BUILT_IN, *_registered, *_foreign(GROUP), *_foreign(SERVICE_GROUP), NONE]


def is_service(name: str) -> bool:
    """Whether a sink belongs into the relay; fails for a name nobody answers to, and for a package that is missing."""
    if name in LOCAL or name in _registered:
        return False
    if name in SERVICES:
        package = SERVICES[name].package
        if not is_installed(package):
            raise MissingPackage(f"the {name!r} sink needs the {package!r} package: pip install 'chiplog[{name}]'")
        return True
    if name in _foreign(SERVICE_GROUP):
        return True
    if name in _foreign(GROUP):
        return False
    raise UnknownSink(f"no sink named {name!r}; there are: {', '.join(names())}")


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Fails for an option that a service of ours does not have, without importing it."""
    if name in SERVICES:
        _check(name, options, SERVICES[name].options)


def check_ready(name: str, options: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Raises `Refused` for a service that cannot work as things are, without importing its package."""
    if name in SERVICES and SERVICES[name].login:
        import_module(f"chiplog.sinks.{SERVICES[name].login}").check(environ, options)


def register_backend(name: str, backend: Callable[..., Any]) -> None:
    """Let `sinks="name"` mean this class, or function that makes a backend; a later one of the same name replaces it.

    >>> chiplog.register_backend("mine", MyBackend)
    >>> run = chiplog.init(sinks={"mine": {"path": "mine.txt"}})
    """
    if not isinstance(name, str) or not name.strip() or "," in name:
        raise BadSetting(f"{name!r} is no name for a backend: it is a text without commas")
    if name in (*BUILT_IN, NONE):
        raise BadSetting(f"{name!r} is a sink of chiplog already; register the backend under another name")
    if not callable(backend):
        raise BadSetting(f"{backend!r:.200} is no backend to register: give its class, or a function that makes one")
    _registered[name] = backend


def open_named(name: str, options: Mapping[str, Any], identity: Identity, environ: Mapping[str, str]) -> Sink:
    """Open a sink by its name. One of another package that fails is opened as one that says so."""
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


def open_service(name: str, options: Mapping[str, Any], identity: Identity, environ: Mapping[str, str]) -> Sink:
    """A service on a thread of the training: if it does not work, that is no mistake made at the door."""
    return factories.opened(lambda: open_named(name, options, identity, environ), identity)


def open_objects(things: Iterable[tuple[str | None, Any]], identity: Identity) -> dict[str, Sink]:
    """Objects and factories as sinks, under the name given with them, their own, or that of their class."""
    opened: dict[str, Sink] = {}
    for given, thing in things:
        sink = _object(thing, identity)
        late = isinstance(sink, factories.MadeSink) and not sink.opened
        name = given or _name(sink if late else factories.native(sink)) or _name(thing) or "backend"
        while name in opened:
            name += "-2"
        opened[name] = sink
    return opened


def _check(name: str, options: Mapping[str, Any], known: Sequence[str]) -> None:
    for option in options:
        if option not in known:
            has = f"it has: {', '.join(known)}" if known else "it has none"
            raise BadSetting(f"the {name!r} sink has no option {option!r}; {has}")


def _opener(name: str) -> Opener:
    if name in BUILT_IN:
        try:
            module = import_module(f"chiplog.sinks.{name}")
            if hasattr(module, "__path__"):
                module = import_module(f"chiplog.sinks.{name}.sink")
            opener: Opener = module.open_sink
        except ImportError as error:
            raise MissingPackage(
                f"the {name!r} sink needs the {error.name!r} package: pip install 'chiplog[{name}]'"
            ) from error
        return opener
    for group in (GROUP, SERVICE_GROUP):
        if (entry := _foreign(group).get(name)) is not None:
            factory: Opener = entry.load()
            return factory
    raise UnknownSink(f"no sink named {name!r}; there are: {', '.join(names())}")


def is_installed(package: str) -> bool:
    """Whether a package could be imported."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # the package around it is missing
        return False


def _foreign(group: str) -> dict[str, Any]:
    """The entry points of other packages."""
    from importlib.metadata import entry_points  # 20 ms, and needed only for names that are not ours

    return {entry.name: entry for entry in entry_points(group=group)}


def _object(thing: Any, identity: Identity) -> Sink:
    """A sink from a factory, which is called now and on a thread of its own, or around an object as it is."""
    if isinstance(thing, factories.FactoryThread):
        return factories.MadeSink(thing, identity)
    return factories.make(thing, identity) if factories.is_factory(thing) else backends.wrap(thing, identity)


def _name(thing: Any) -> str:
    """What a thing is called, in small letters; nothing for what has no name of its own."""
    if isinstance(thing, factories.FactoryThread):
        return "" if thing.factory.startswith("lambda") else thing.factory.lower()
    if isinstance(thing, (factories.Unopened, factories.MadeSink)):
        return ""
    name = getattr(thing, "name", None) or getattr(thing, "__name__", type(thing).__name__)
    return "" if name == "<lambda>" else str(name).lower()
