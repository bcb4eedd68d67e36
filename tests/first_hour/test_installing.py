"""What a new user gets by `pip install`, and the first minute with it."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

from tests.first_hour.conftest import READ, ROOT
from tests.first_hour.environment import Environment

README = (ROOT / "README.md").read_text()


def test_the_example_of_the_readme_works_with_what_it_says_to_install(read: Environment) -> None:
    """`pip install 'chiplog[read]'`, which is part of what it says to install, then the script as printed."""
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = read.python(example)
    assert "[4." in done.stdout and "Traceback" not in done.stderr
    assert list(read.cwd.glob("runs/tiny-lm/*/files/metrics.csv"))
    assert "tiny-lm" in read.chiplog("ls").stdout and "train/loss" in read.chiplog("show", "latest").stdout


def test_links_on_the_registry_page_are_absolute(installed: Path) -> None:
    """A relative link or picture would be broken there."""
    (wheel,) = installed.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", name)]
        metadata = archive.read(name).decode()
        assert "chiplog/py.typed" in archive.namelist()
    targets = re.findall(r"\]\(([^)]*)\)", metadata)
    assert len(targets) > 20 and all(target.startswith("https://") for target in targets)
    assert "Project-URL: Documentation" in metadata and "Typing :: Typed" in metadata
    for classifier in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Classifier: Programming Language :: Python :: {classifier}\n" in metadata
    for system in ("POSIX :: Linux", "MacOS"):
        assert f"Classifier: Operating System :: {system}\n" in metadata
    brought = re.findall(r"^Requires-Dist: ([\w-]+)[^;\n]*(?:; extra == ['\"]read['\"])?$", metadata, re.MULTILINE)
    page = re.findall(r"^Requires-Dist: ([\w-]+).*extra == ['\"]ui['\"]$", metadata, re.MULTILINE)
    assert {*page, "msgspec"} == {*READ, "h11"}  # what `chiplog ui` needs, and the README installs
    assert sorted(brought) == sorted(READ)  # otherwise the environment of these tests is not what users get


def test_the_readme_begins_with_how_to_install_and_names_the_demo() -> None:
    """The first command in it is the one that brings what the example and the verbs it names need."""
    assert re.findall(r"```\n(.*?)\n```", README, re.DOTALL)[0] == "pip install 'chiplog[ui]'"
    assert README.index("pip install") < 100 and "`chiplog demo`" in README
