"""Finding a run by path, id, prefix, name, or `latest`."""

from __future__ import annotations

from pathlib import Path

import pytest

from chiplog.core.errors import RunNotFound
from chiplog.store import manifest
from chiplog.store.runs.find import find, runs, select


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for created, (project, run, name) in enumerate(
        [("p", "261101-a", "first"), ("p", "261102-b", "twin"), ("q", "261103-c", "twin")]
    ):
        path = tmp_path / project / run
        (path / "journal").mkdir(parents=True)
        manifest.save(path, manifest.Manifest(project=project, id=run, name=name, created=10 - created))
    return tmp_path


@pytest.mark.parametrize(
    "text", ["261101-a", "p/261101-a", "261101", "first", "latest", "p", "p/latest", "p/first", "p/2611*a", "fir*", "a"]
)
def test_a_run_is_found_by_what_names_it(root: Path, text: str) -> None:
    """`latest` is the one created last, whatever its id."""
    assert find(text, root).resolve() == (root / "p" / "261101-a").resolve()


@pytest.mark.parametrize("name", ["p", "missing", "empty"])
def test_a_path_without_a_run_is_named_in_full(root: Path, tmp_path: Path, name: str) -> None:
    """With its first slash, whether there are runs elsewhere or not."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(RunNotFound, match=r"^no run '/no/where/x'"):
        find("/no/where/x", root / name)


@pytest.mark.parametrize("text", ["p", "p/", "p/latest", "p/first", "p/261101", ""])
def test_a_path_into_the_directory_of_the_runs_may_be_shorter(root: Path, text: str) -> None:
    """As the shell completes it: of a project, or with a name behind it; the directory itself is its newest run."""
    assert find(f"{root}/{text}", root).resolve() == (root / "p" / "261101-a").resolve()


@pytest.mark.parametrize("text", ["p", ""])
def test_a_directory_of_runs_needs_no_root(root: Path, text: str) -> None:
    """Neither does a run."""
    assert find(f"{root}/{text}", Path("/nowhere")).name == "261101-a"


def test_a_directory_of_runs_elsewhere_is_listed(root: Path, tmp_path: Path) -> None:
    """`ls DIR/PROJECT` and `ls DIR` are that project and those runs."""
    (tmp_path / "empty").mkdir()
    assert [one.id for one in runs(tmp_path / "empty", str(root / "q"))] == ["261103-c"]
    assert len(runs(root, str(root))) == 3


def test_a_path_inside_a_run_is_no_directory_of_runs(root: Path) -> None:
    """Whoever made the run could have put any runs there."""
    inner = root / "q" / "261103-c" / "files" / "x"
    (inner / "journal").mkdir(parents=True)
    with pytest.raises(RunNotFound):
        find(inner.parent, root)


def test_a_path_needs_no_root(root: Path) -> None:
    """A directory with a journal is a run."""
    assert find(root / "q" / "261103-c", Path("/nowhere")) == root / "q" / "261103-c"


@pytest.mark.parametrize(
    ("text", "message"),
    [("2611", "'2611' matches 3 runs"), ("twin", "use an id: 261102-b is the newest"), ("zzz", "no run 'zzz' under")],
)
def test_what_names_no_single_run_is_an_error_that_lists_them(root: Path, text: str, message: str) -> None:
    """So that the next try succeeds."""
    with pytest.raises(RunNotFound, match=message) as error:
        find(text, root)
    assert "261103-c" in str(error.value)


def test_runs_of_the_same_name_are_listed_with_their_times(root: Path) -> None:
    """A longer prefix of an exact name would not help."""
    with pytest.raises(RunNotFound, match=r"^2 runs are named 'twin': q/261103-c \(started .*\), p/261102-b") as error:
        find("twin", root)
    assert "prefix" not in str(error.value)
    assert find("p/twin", root).name == "261102-b"


def test_all_runs_are_listed_oldest_first(root: Path) -> None:
    """Of all projects, or of one."""
    assert [run.id for run in runs(root)] == ["261103-c", "261102-b", "261101-a"]
    assert [run.id for run in runs(root, "q")] == ["261103-c"]


def test_several_runs_are_named_by_a_pattern(root: Path) -> None:
    """Of names and ids, otherwise of projects, or with a slash of both; what is named twice is there twice."""
    assert [path.name for path in select(["[q]"], root)] == ["261103-c"]
    assert [path.name for path in select(["p/*"], root)] == ["261102-b", "261101-a"]
    assert [path.name for path in select(["first", "tw*", "first"], root)] == [
        "261101-a", "261103-c", "261102-b", "261101-a",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "hint"), [("frist", "did you mean 'first'"), ("P", "did you mean 'p'"), ("lates", "did you mean 'latest'")]
)
def test_a_mistake_is_corrected(root: Path, text: str, hint: str) -> None:
    """Names, projects and `latest`."""
    with pytest.raises(RunNotFound, match=hint):
        find(text, root)


def test_the_newest_of_each_project_that_matches(root: Path) -> None:
    """For verbs that take several runs; those that take one need a single project."""
    assert [path.name for path in select(["*/latest"], root)] == ["261103-c", "261101-a"]
    assert find("[p]*/latest", root).name == "261101-a"
