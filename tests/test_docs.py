"""The docs tell the truth: their examples run, and every sink, setting and verb is in them."""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from chiplog import cli
from chiplog.core.settings import Settings
from chiplog.sinks import registry

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
VERBS = [
    verb
    for action in cli.parser()._actions
    if isinstance(action, argparse._SubParsersAction)
    for verb in action.choices
]
EXAMPLES = [
    pytest.param(code, id=f"{page.name}-{number}")
    for page in PAGES
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
    if "import chiplog" in code
]

# Phrases that a native speaker would not write, and the exceptions where they would. `_` is any space, also a line
# break in a comment or a docstring.
AWKWARD = re.compile(
    r"\b(?:(?<!there_)(?:is|are)_no_(?!longer\b|more\b|such\b)|anew\b|belongs?_into\b|lest\b|the_begin\b|of_late\b"
    r"|in_vain\b|for_ever\b|of_yours\b|there_are:)".replace("there_)", "there )").replace("_", r"(?:\s|#|//|\*)+"),
    re.IGNORECASE,
)
WRITTEN = [
    *PAGES,
    ROOT / "Makefile",
    *(
        path
        for folder in ("src", "tests", "bench", "examples")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".js", ".html", ".css") and path != Path(__file__)
    ),
]


VAGUE = {"found", "known", "said", "given"}
VAGUE_SCRIPT = re.compile(
    rf"\b(?:const|let|var|function)\s+(?:\[[^\]=]*|\{{[^}}=]*)?\b({'|'.join(VAGUE)})\b|\(({'|'.join(VAGUE)})\)\s*=>"
)


def bound_names(tree: ast.AST) -> Iterator[str]:
    """The names that code gives to something: variables, also in loops and tuples, attributes, arguments, functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.arg):
            yield node.arg
        elif name := getattr(node, "name", None):  # of functions, classes, caught exceptions and patterns
            yield name


def vague_names(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        return [one or other for one, other in VAGUE_SCRIPT.findall(text)]
    return [name for name in bound_names(ast.parse(text)) if name.strip("_") in VAGUE]


def test_a_result_is_named_after_what_it_is() -> None:
    """Not `found`, which every result is."""
    scripts = [path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".js")]
    named = {str(path.relative_to(ROOT)): names for path in scripts if (names := vague_names(path))}
    assert named == {}, "name these results after what they are, such as `matching` or `stored`"


@pytest.mark.parametrize(
    "code",
    [
        "a, found = f()", "for known in b: pass", "with open(a) as said: pass", "if given := f(): pass", "self._known = 1",
        "def f(found): pass", "def known(): pass", "[found for found in b]",
    ],
)  # fmt: skip
def test_vague_names_are_seen_wherever_they_are_bound(code: str) -> None:
    """In tuples, loops, `with` and arguments, too."""
    assert set(bound_names(ast.parse(code))) & {*VAGUE, "_known"}


@pytest.mark.parametrize(
    "code", ["const found = f();", "for (const known of a)", "let [a, said] = b", "f((given) => 1)"]
)
def test_vague_names_are_seen_in_scripts(code: str) -> None:
    """However they are declared."""
    assert VAGUE_SCRIPT.search(code)


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_of_the_docs_runs(code: str, tmp_path: Path) -> None:
    """As a person would run it: in a file of its own, in an empty directory."""
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_there_are_examples() -> None:
    """The pattern above still finds them."""
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("name", [*registry.BUILT_IN, registry.NONE])
def test_every_sink_is_documented(name: str) -> None:
    """In the table of sinks."""
    documented = f"| `{name}` |" in (ROOT / "docs" / "sinks.md").read_text()
    assert documented, f"add a row for {name!r} to the table of docs/sinks.md"


@pytest.mark.parametrize("name", [field.name for field in msgspec.structs.fields(Settings)])
def test_every_setting_is_documented(name: str) -> None:
    """In the table of settings."""
    assert f"| `{name}` |" in (ROOT / "docs" / "settings.md").read_text()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_documented(verb: str) -> None:
    """On the page of the command line."""
    assert f"| `chiplog {verb}" in (ROOT / "docs" / "command-line.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """No page points at one that is not there."""
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith(("http:", "https:")):
            assert (page.parent / target).exists(), target


def test_every_file_that_the_design_names_exists() -> None:
    """Under `src/chiplog`; in the table of layers, also below the folder of the row."""
    source = ROOT / "src" / "chiplog"
    named = 0
    for line in (ROOT / "docs" / "design.md").read_text().splitlines():
        row = re.match(r"\| `([\w/]+)/` \|", line)
        for path in re.findall(r"`(\w[\w/]*(?:\.py|\.js|/)|\w+(?:/\w+)+)`", line):
            named += 1
            below = row is not None and next((source / row[1]).rglob(path.rstrip("/")), None) is not None
            assert below or (source / path).exists() or (ROOT / path).exists(), path
    assert named > 100


def test_decisions_are_short() -> None:
    """Context, choice and price, in about ten lines."""
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        text = page.read_text()
        assert all(f"**{part}.**" in text for part in ("Context", "Choice", "Price")), page.name
        assert len(text.splitlines()) <= 20, page.name


def test_every_guarantee_names_tests_that_exist() -> None:
    """A promise without the test that holds it is none."""
    text = (ROOT / "docs" / "guarantees.md").read_text()
    found = re.findall(r"`((?:tests/)?[\w/]*test_\w+\.py|…)::(test_\w+)`", text)
    assert len(found) > 30
    for file, test in found:
        place = ROOT / (file if "/" in file else f"tests/faults/{file.replace('…', 'test_untrusted.py')}")
        assert place.is_file() and f"def {test}(" in place.read_text(), f"{file}::{test}"


def test_the_english_is_native() -> None:
    """Translated phrases stay out of the source, the tests, the benchmarks and the pages."""
    awkward = {}
    for path in WRITTEN:
        text = path.read_text(encoding="utf-8")
        if phrases := [text[match.start() : match.end() + 40] for match in AWKWARD.finditer(text)]:
            awkward[str(path.relative_to(ROOT))] = phrases
    assert awkward == {}, "no native speaker would write this: 'no value is left out', not 'is no value left out'"
