"""Where the services of a run are, noted as `init` does it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from chiplog.core.records import Plain
from chiplog.sinks.delivery import destinations


def enrol(run: Path, service: str, options: Mapping[str, object]) -> None:
    """Note that a service gets this run."""
    destinations.enrol(run, service, options, str(Path.cwd()), os.environ)


def enrolled(run: Path) -> dict[str, dict[str, Plain]]:
    """The services that get a run, with their options."""
    destination = destinations.destination_of(run, os.environ)
    return {} if destination is None else destination.services
