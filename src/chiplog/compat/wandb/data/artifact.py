"""Artifacts: named files that one run keeps and another uses. They are kept in the run that logs them."""

from __future__ import annotations

import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import chiplog
from chiplog.compat.wandb import messages
from chiplog.core.files import folders, reading
from chiplog.core.paths import file_name
from chiplog.core.records import Event
from chiplog.core.run import Run


class Artifact:
    """Files under one name. `log_artifact` copies them to the run; nothing is hashed, and nothing uploaded."""

    def __init__(
        self,
        name: str,
        type: str,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        incremental: bool = False,  # noqa: ARG002
        use_as: str | None = None,  # noqa: ARG002
        **_: object,
    ) -> None:
        self.name, self.type, self.description = str(name), str(type), description
        self.metadata: dict[str, Any] = dict(metadata or {})
        self.aliases: list[str] = []
        self.version = ""
        self.files_by_name: dict[str, Path] = {}
        self.references: dict[str, str] = {}
        self.folder: Path | None = None  # where the files of a logged artifact are
        self._made: Path | None = None  # the folder of new files

    # -- adding --------------------------------------------------------------------------------------------------------

    @messages.guarded(None)
    def add_file(self, local_path: str | Path, name: str | None = None, **_: object) -> None:
        """Add a file under its own name or another one."""
        path = Path(local_path)
        if not path.is_file():
            messages.once(f"artifact {path}", f"Artifact.add_file: there is no file {str(path)!r}; ignored")
            return
        self.files_by_name[name or path.name] = path

    @messages.guarded(None)
    def add_dir(self, local_path: str | Path, name: str | None = None, **_: object) -> None:
        """Add all files of a folder."""
        folder = Path(local_path)
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                relative = str(path.relative_to(folder))
                self.files_by_name[f"{name}/{relative}" if name else relative] = path

    def add_path(self, path: str | Path) -> None:
        """Add a file or a folder."""
        if Path(path).is_dir():
            self.add_dir(path)
        else:
            self.add_file(path)

    def add_reference(self, uri: Any, name: str | None = None, **_: object) -> list[Any]:
        """Note where something is; it is not copied."""
        self.references[name or str(uri)] = str(uri)
        return []

    def add(self, obj: Any, name: str, overwrite: bool = False) -> None:  # noqa: ARG002
        """Add a table, as JSON; other objects are not kept."""
        columns, data = getattr(obj, "columns", None), getattr(obj, "data", None)
        if columns is None or data is None:
            messages.not_kept(f"Artifact.add({type(obj).__name__})", "log it, or add its file")
            return
        with self.new_file(f"{name}.table.json") as file:
            import json

            json.dump({"columns": columns, "data": data}, file, default=str)

    @contextmanager
    def new_file(self, name: str, mode: str = "w", encoding: str | None = None) -> Iterator[IO[Any]]:
        """A new file of the artifact, open for writing."""
        if self._made is None:
            self._made = Path(tempfile.mkdtemp(prefix="chiplog-artifact-"))
            weakref.finalize(self, shutil.rmtree, self._made, True)
        path = self._made / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding=encoding) as file:
            yield file
        self.files_by_name[name] = path

    # -- using ---------------------------------------------------------------------------------------------------------

    def download(self, root: str | Path | None = None, **_: object) -> str:
        """The folder of the files; a copy of it if `root` is passed."""
        if self.folder is None:
            return str(root or tempfile.mkdtemp(prefix="chiplog-artifact-"))
        if root is not None:
            for name, path in self.files_by_name.items():
                target = Path(root) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target, follow_symlinks=False)
        return str(root or self.folder)

    checkout = download

    def file(self, root: str | Path | None = None) -> str:
        """The only file."""
        return next((str(path) for path in sorted(Path(self.download(root)).rglob("*")) if path.is_file()), "")

    def get_path(self, name: str) -> Artifact:
        entry = Artifact(name, self.type)
        entry.folder = self.folder
        return entry

    get_entry = get_path

    def files(self, *_: object, **__: object) -> list[Path]:
        return sorted(path for path in Path(self.download()).rglob("*") if path.is_file()) if self.folder else []

    def wait(self, timeout: float | None = None) -> Artifact:  # noqa: ARG002
        return self

    def save(self, *_: object, **__: object) -> None:
        """Nothing to do: `log_artifact` keeps the artifact, and changes of aliases are not kept."""

    def is_draft(self) -> bool:
        return self.folder is None

    @property
    def id(self) -> str:
        return f"{self.name}:{self.version or 'draft'}"

    @property
    def qualified_name(self) -> str:
        return self.id

    @property
    def size(self) -> int:
        return sum(path.stat().st_size for path in self.files_by_name.values())

    @property
    def state(self) -> str:
        return "PENDING" if self.folder is None else "COMMITTED"


def log_artifact(run: Run, artifact: Artifact, aliases: Sequence[str]) -> None:
    """Copy the files of an artifact to a run, and record what it is."""
    if run.inert:
        return
    label = file_name(artifact.name.replace("/", "-"), "")
    version = sum(1 for path in (run.dir / "files" / "artifacts").glob(f"{label}-v*"))
    artifact.version = f"v{version}"
    artifact.aliases = [*([aliases] if isinstance(aliases, str) else aliases), "latest"]
    folder = run.dir / "files" / "artifacts" / f"{label}-v{version}"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for name, path in artifact.files_by_name.items():
        target = folder / file_name(name, "")
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copyfile(path, target)
    artifact.folder = folder
    run.event(
        "artifact",
        name=artifact.name,
        type=artifact.type,
        version=artifact.version,
        aliases=artifact.aliases,
        description=artifact.description or "",
        folder=str(folder.relative_to(run.dir)),
        about={key: str(value) for key, value in artifact.metadata.items()},  # text: numbers would become points
        references=artifact.references,
    )


def find(root: Path, name: str, type: str | None = None) -> Artifact:
    """The newest artifact of a name, `data` or `entity/project/data:latest`, in the runs of a directory."""
    base, _, wanted = name.rpartition("/")[2].partition(":")
    for stored in reversed(chiplog.runs(root) if root.is_dir() else []):
        for record in reversed(list(stored.records("event"))):
            if not isinstance(record, Event) or (record.name, record.data.get("name")) != ("artifact", base):
                continue
            if wanted in ("", "latest", record.data.get("version"), *record.data.get("aliases", ())):
                try:
                    return _stored(stored.path, record.data)
                except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
                    messages.once(f"artifact {name} {stored.id}", f"the artifact {name!r} of run {stored.id}: {error}")
    messages.once(f"artifact {name}", f"no run under {root} has logged the artifact {name!r}; an empty one is used")
    return Artifact(base, type or "unspecified")


def _stored(run: Path, data: Mapping[str, Any]) -> Artifact:
    artifact = Artifact(data["name"], data.get("type", ""), data.get("description"), data.get("about"))
    artifact.version, artifact.aliases = data.get("version", ""), list(data.get("aliases", ()))
    artifact.references = dict(data.get("references", {}))
    # Somebody else may have made the run: only folders and files inside it are an artifact.
    folder = "/".join(folders.parts_of(data["folder"]))
    folders.check_folder(run, folder.split("/"))
    artifact.folder = run / folder
    artifact.files_by_name = {
        name.removeprefix(f"{folder}/"): run / name
        for name, about in sorted(reading.tree(run, folder))
        if stat.S_ISREG(about.st_mode)
    }
    return artifact
