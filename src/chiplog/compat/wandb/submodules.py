"""The submodules that frameworks import, such as `wandb.sdk.lib`, as a table of names."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# The names in each submodule; those on the right are names of the stand-in.
SUBMODULES: dict[str, dict[str, str]] = {
    "apis": {"PublicApi": "Api"},
    "apis.public": {"Api": "Api", "Run": "Run"},
    "data_types": {
        name: name
        for name in ("Audio", "Histogram", "Html", "Image", "Molecule", "Object3D", "Plotly", "Table", "Video")
    },
    "env": {},
    "errors": {
        name: f"errors.{name}"
        for name in ("AuthenticationError", "CommError", "Error", "UnsupportedError", "UsageError", "WaitTimeoutError")
    },
    "plot": {
        name: f"plot.{name}"
        for name in ("bar", "confusion_matrix", "histogram", "line", "line_series", "plot_table", "scatter")
    },
    "sdk": {"Config": "Config", "Settings": "Settings", "Summary": "Summary", "init": "init"},
    "sdk.data_types": {},
    "sdk.lib": {"RunDisabled": "RunDisabled"},
    "sdk.lib.config_util": {"ConfigError": "errors.ConfigError"},
    "sdk.lib.disabled": {"RunDisabled": "RunDisabled"},
    "sdk.lib.runid": {"generate_id": "generate_id"},
    "sdk.wandb_config": {"Config": "Config"},
    "sdk.wandb_run": {"Run": "Run"},
    "sdk.wandb_settings": {"Settings": "Settings"},
    "sdk.wandb_summary": {"Summary": "Summary"},
    "util": {"generate_id": "generate_id"},
    "wandb_run": {"Run": "Run"},
}


def install(name: str, module: ModuleType) -> None:
    """Make a module and its submodules importable under a name, such as `wandb`."""
    sys.modules[name] = module
    for path, names in SUBMODULES.items():
        made = _module(f"{name}.{path}", {key: _named(module, where) for key, where in names.items()})
        parent, _, last = path.rpartition(".")
        if parent:
            setattr(sys.modules[f"{name}.{parent}"], last, made)
        elif path not in vars(module):
            setattr(module, last, made)


def _module(name: str, names: Mapping[str, Any]) -> ModuleType:
    made = ModuleType(name)
    made.__spec__ = ModuleSpec(name, None, is_package=True)
    made.__path__ = []
    vars(made).update(names)
    sys.modules[name] = made
    return made


def _named(module: ModuleType, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value
