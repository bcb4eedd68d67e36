"""A config of Surogate, wherever its options come from: a YAML file, a mapping, or an object with attributes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import MemberDescriptorType
from typing import Any

from chiplog.core.errors import BadSetting, MissingPackage

PLAIN = (bool, int, float, str, list, tuple, type(None))  # what an option on a class may be
# A float with an exponent as YAML 1.2 has it. PyYAML wants a point and a sign too, and reads 2e-4 as text.
EXPONENT = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+"


def load(config: Any) -> dict[str, Any]:
    """A config as a mapping of options."""
    if config is None:
        return {}
    if isinstance(config, Mapping):
        return dict(config)
    if isinstance(config, (str, Path)):
        return _read(Path(config))
    if hasattr(config, "_asdict"):  # a named tuple
        return dict(config._asdict())
    found = _attributes(config)
    if not found and not hasattr(config, "__dict__"):
        kind = type(config).__name__
        raise BadSetting(f"a config is a YAML file, a mapping or an object with attributes, not {kind}")
    return found


def _attributes(config: Any) -> dict[str, Any]:
    """The attributes of an object: its own, those in slots, and the plain values on its class. Properties may do
    anything, so they are not called."""
    kinds = config.__mro__ if isinstance(config, type) else type(config).__mro__
    found: dict[str, Any] = {}
    for kind in reversed(kinds):
        for name, value in vars(kind).items():
            if isinstance(value, PLAIN):
                found[name] = value
            elif isinstance(value, MemberDescriptorType) and hasattr(config, name):
                found[name] = getattr(config, name)
    if not isinstance(config, type):
        found |= getattr(config, "__dict__", {})
    return {name: value for name, value in found.items() if not name.startswith("_")}


def _read(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise MissingPackage("a YAML config needs the 'pyyaml' package: pip install 'chiplog[yaml]'") from error

    class Loader(yaml.SafeLoader):  # type: ignore[misc]
        """PyYAML's, with the numbers of YAML 1.2 too."""

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(rf"^{EXPONENT}$"), list("-+.0123456789"))
    try:
        found = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadSetting(f"the config {str(path)!r} cannot be read: {error}") from None
    if found is None:  # an empty file
        return {}
    if not isinstance(found, Mapping):
        raise BadSetting(f"the config {str(path)!r} is not a mapping of options, but {type(found).__name__}")
    return dict(found)
