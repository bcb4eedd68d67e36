"""A config of Surogate: from a YAML file, a mapping, or an object with attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MemberDescriptorType
from typing import Any

from chiplog.core.errors import BadSetting, MissingPackage

PLAIN = (bool, int, float, str, list, tuple, type(None))  # types of options on a class
# A float with an exponent, by YAML 1.2. PyYAML also requires a point and a sign, and reads 2e-4 as text.
EXPONENT = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+"


def load(config: Any) -> dict[str, Any]:
    """Load the options of a config."""
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return dict(config)
    if isinstance(config, (str, Path)):
        return _read(Path(config))
    if hasattr(config, "_asdict"):  # a named tuple
        return dict(config._asdict())
    options = _attributes(config)
    if not options and not hasattr(config, "__dict__"):
        kind = type(config).__name__
        raise BadSetting(f"a config is a YAML file, a mapping or an object with attributes, not {kind}")
    return options


def _attributes(config: object) -> dict[str, Any]:
    """The attributes of an object: its own, those in slots, and plain values on its class.

    Properties are not called, since they may do anything.
    """
    classes = config.__mro__ if isinstance(config, type) else type(config).__mro__
    attributes: dict[str, Any] = {}
    for kind in reversed(classes):
        for name, value in vars(kind).items():
            if isinstance(value, PLAIN):
                attributes[name] = value
            elif isinstance(value, MemberDescriptorType) and hasattr(config, name):
                attributes[name] = getattr(config, name)
    if not isinstance(config, type):
        attributes |= getattr(config, "__dict__", {})
    return {name: value for name, value in attributes.items() if not name.startswith("_")}


def _read(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise MissingPackage("reading a YAML config needs the package 'pyyaml': pip install 'chiplog[yaml]'") from error

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """PyYAML's loader, with the numbers of YAML 1.2."""

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(rf"^{EXPONENT}$"), list("-+.0123456789"))
    try:
        options = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadSetting(f"the config {str(path)!r} cannot be read: {error}") from None
    if options is None:  # an empty file
        return {}
    if not isinstance(options, Mapping):
        raise BadSetting(f"the config {str(path)!r} is not a mapping of options, but {type(options).__name__}")
    return dict(options)
