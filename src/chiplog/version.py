"""The version, for records and the command line; `pyproject.toml` reads it from here."""

VERSION = "0.1.0"
