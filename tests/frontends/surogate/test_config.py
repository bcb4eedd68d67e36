"""Surogate's config: where its options may come from."""

from __future__ import annotations

import math
from collections import namedtuple
from dataclasses import make_dataclass
from types import SimpleNamespace

import pytest

import chiplog
from chiplog.frontends.surogate.config import load


class OfAClass:
    output_dir, report_to, learning_rate = "o3", "wandb", 2e-4

    def method(self): ...

    @property
    def costly(self):
        raise AssertionError("nobody asked for it")


class Changed(OfAClass):
    report_to = "csv"

    def __init__(self):
        self.learning_rate = 1e-4


class Slots:
    __slots__ = ("learning_rate", "output_dir", "unset")

    def __init__(self):
        self.output_dir, self.learning_rate = "o3", 2e-4


@pytest.mark.parametrize(("config", "wanted"), [
    (OfAClass(), {"output_dir": "o3", "report_to": "wandb", "learning_rate": 2e-4}),
    (OfAClass, {"output_dir": "o3", "report_to": "wandb", "learning_rate": 2e-4}),
    (Changed(), {"output_dir": "o3", "report_to": "csv", "learning_rate": 1e-4}),
    (Slots(), {"output_dir": "o3", "learning_rate": 2e-4}),
    (namedtuple("Config", "output_dir")("o3"), {"output_dir": "o3"}),
    (make_dataclass("Config", [("output_dir", str, "o3")], slots=True)(), {"output_dir": "o3"}),
    (SimpleNamespace(), {}),
], ids=["class attributes", "class", "both", "slots", "named tuple", "dataclass", "empty"])  # fmt: skip
def test_a_config_is_read_by_its_attributes(config, wanted):
    """On the object, in its slots, or on its class; no method, and no property is called."""
    assert load(config) == wanted


@pytest.mark.parametrize("config", [5, ["a"], object()])
def test_what_is_not_a_config(config):
    """Named at the door."""
    with pytest.raises(chiplog.ChiplogError, match="a config is a YAML file, a mapping or an object with attributes"):
        load(config)


@pytest.mark.parametrize(("text", "value"), [
    ("2e-4", 2e-4), ("1E5", 1e5), ("-3e+2", -300.0), ("2.5e-4", 2.5e-4), (".5", 0.5), ("5.", 5.0), ("7", 7),
    ("'2e-4'", "2e-4"), ("e4", "e4"), ("1.2.3", "1.2.3"), (".inf", math.inf), ("12:30", 750), ("2e", "2e"),
])  # fmt: skip
def test_numbers_in_a_yaml_file(tmp_path, text, value):
    """`2e-4` is a number, as in YAML 1.2; in quotes it is a text."""
    path = tmp_path / "config.yaml"
    path.write_text(f"learning_rate: {text}\n")
    assert load(path) == {"learning_rate": value} and type(load(path)["learning_rate"]) is type(value)


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "---\n"])
def test_an_empty_yaml_file_is_an_empty_config(tmp_path, text):
    """With every default."""
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert load(path) == {}


@pytest.mark.parametrize(
    ("text", "words"), [("- 1\n", "is not a mapping"), ("a: [", "cannot be read"), (None, "cannot be read")]
)
def test_a_config_that_cannot_be_read(tmp_path, text, words):
    """Named at the door."""
    path = tmp_path / "config.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(chiplog.ChiplogError, match=words):
        load(path)
