"""The files of the page."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from chiplog.views.web import asset_bundle as page
from tests.views.web import serving as tools
from tests.views.web import stores


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tools.Served]:
    root = tmp_path_factory.mktemp("asked") / "runs"
    stores.rich(root)
    for number in range(3):
        stores.simple(root, f"run-{number}", lr=1e-4 * (number + 1))
    stores.damage(stores.simple(root, "broken"))
    with tools.serving(root) as server:
        yield server


def test_the_page_is_small() -> None:
    """What travels, compressed: far below 250 kB."""
    assert sum(asset.shipped for asset in page.files().values()) < 80_000


def test_the_files_of_the_page_are_asked_for_once(served: tools.Served) -> None:
    """They are named after what they hold, so a browser keeps them; the page that names them is looked at each time."""
    index = served.ask("/")
    assert index.headers["cache-control"] == "no-cache"
    assert served.ask("/", f"If-None-Match: {index.headers['etag']}").status == 304
    for path in set(page.files()) - {"/", "/index.html"}:
        assert f'="{path[1:]}"' in index.body.decode()
        assert "immutable" in served.ask(path).headers["cache-control"]


def test_the_modules_are_one_script() -> None:
    """Every one of them is in it, none is fetched, and nothing in it could end a page that holds it."""
    script = page.script("offline", "main")
    assert not [line for line in script.splitlines() if line.startswith(("import ", "export "))]
    assert {f"const ${path.stem} =" in script for path in page.ASSETS.glob("*.js") if path.stem != "main"} == {True}
    assert "</script" not in script and "<!--" not in script
