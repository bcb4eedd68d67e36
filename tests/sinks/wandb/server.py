"""The part of W&B's server that its client talks to, in memory: enough to see what arrives, and to fail on purpose.

GraphQL for runs, alerts and artifacts, the file stream for history lines, and `PUT` for files. A line of the history
has its place (`offset`), so one that is sent again replaces itself, as on the real server.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Remote:
    """A run as the server has it."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.project = self.entity = self.name = ""
        self.about: dict[str, Any] = {}
        self.lines: list[str] = []
        self.sent = 0  # lines that came, those included that were there already
        self.summary: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self.alerts: list[dict[str, Any]] = []
        self.exit: int | None = None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The history, without the client's own fields."""
        found = [json.loads(line) for line in self.lines]
        return [{key: value for key, value in row.items() if not key.startswith("_")} for row in found]

    def series(self, name: str) -> list[tuple[Any, Any]]:
        """(step, value) of every row that has it."""
        return [(row.get("step"), row[name]) for row in self.rows if name in row]

    def values(self) -> dict[str, Any]:
        """The config as people see it: W&B keeps each value under `value`."""
        return {key: one.get("value") for key, one in self.config.items()}


class Server:
    """One on a free port of the loopback. `weather`: None is fair, a number is that HTTP status, "hang" no answer."""

    def __init__(self) -> None:
        self.runs: dict[str, Remote] = {}
        self.deleted: set[str] = set()
        self.artifacts: list[dict[str, Any]] = []
        self.asked: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.weather: int | str | None = None
        self.stream_weather: int | str | None = None  # only for the file stream
        self.storms = 0  # requests that got the status of the weather
        self.refuses: dict[str, int] = {}  # the status that one kind of request gets
        self.port = 0
        self._http: ThreadingHTTPServer | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listen, on the same port as before."""
        server = self

        class Handler(_Handler):
            remote = server

        self._http = _Http(("127.0.0.1", self.port), Handler)
        self.port = self._http.server_address[1]
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Listen no longer, as one that was killed; what it has, it has on disk."""
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    def delete(self, id: str) -> None:
        """A deleted run's id cannot be used again."""
        self.runs.pop(id, None)
        self.deleted.add(id)

    def stream(self, id: str, body: dict[str, Any]) -> dict[str, Any]:
        run = self.runs[id]
        for name, chunk in (body.get("files") or {}).items():
            if name == "wandb-history.jsonl":
                at = chunk["offset"]
                assert at <= len(run.lines), f"a gap in the history: {at} after {len(run.lines)}"
                run.lines[at : at + len(chunk["content"])] = chunk["content"]
                run.sent += len(chunk["content"])
            elif name == "wandb-summary.json":
                run.summary = json.loads(chunk["content"][-1])
        if body.get("complete"):
            run.exit = body.get("exitcode")
        return {"exitcode": None, "limits": {}}

    def graphql(self, query: str, given: dict[str, Any]) -> dict[str, Any]:
        found = re.search(r"(?:query|mutation)\s+(\w+)", query)
        name = found.group(1) if found else "?"
        self.asked[name] += 1
        if name in self.refuses:
            raise Refused(self.refuses[name], "as the test wants it")
        answer = getattr(self, f"_{name}", None)
        return answer(given) if answer is not None else {}

    def _Viewer(self, given: dict[str, Any]) -> dict[str, Any]:
        nobody: dict[str, Any] = {"edges": []}
        viewer = {"id": "1", "entity": "tester", "username": "tester", "email": "", "flags": "{}"}
        return {"viewer": {**viewer, "teams": nobody, "apiKeys": nobody}}

    def _RunResumeStatus(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"model": self._model(given, given["name"])}

    def _model(self, given: dict[str, Any], id: str) -> dict[str, Any]:
        run = self.runs.get(id)
        return {
            "id": "1",
            "name": given.get("project"),
            "entity": {"id": "1", "name": given.get("entity") or "tester"},
            "bucket": run and self._bucket(run),
        }

    def _bucket(self, run: Remote) -> dict[str, Any]:
        return {
            "id": base64.b64encode(run.id.encode()).decode(),
            "name": run.id,
            "displayName": run.name or run.id,
            "description": run.about.get("notes"),
            "summaryMetrics": json.dumps(run.summary),
            "config": json.dumps(run.config),
            "historyLineCount": len(run.lines),
            "eventsLineCount": 0,
            "logLineCount": 0,
            "historyTail": json.dumps(run.lines[-1:]),
            "eventsTail": "[]",
            "wandbConfig": json.dumps({"t": 1}),
            "tags": run.about.get("tags") or [],
            "sweepName": None,
            "project": {"id": "1", "name": run.project, "entity": {"id": "1", "name": run.entity}},
        }

    def _UpsertBucket(self, given: dict[str, Any]) -> dict[str, Any]:
        key = given.get("name") or base64.b64decode(given["id"]).decode()
        if key in self.deleted:
            raise Refused(409, f"run {key} was previously created and deleted; try a new run name")
        new = key not in self.runs
        run = self.runs.setdefault(key, Remote(key))
        run.project = given.get("project") or run.project
        run.entity = given.get("entity") or run.entity or "tester"
        run.name = given.get("displayName") or run.name
        run.about |= {key: value for key, value in given.items() if value is not None}
        if given.get("config"):
            run.config = json.loads(given["config"])
        return {"upsertBucket": {"bucket": self._bucket(run), "inserted": new}}

    def _CreateRunFiles(self, given: dict[str, Any]) -> dict[str, Any]:
        files = [{"name": name, "uploadUrl": f"{self.url}/put/{given['run']}/{name}"} for name in given["files"]]
        return {"createRunFiles": {"runID": "1", "uploadHeaders": [], "files": files}}

    def _ArtifactType(self, given: dict[str, Any]) -> dict[str, Any]:
        return {"project": None}  # no artifact of that name yet

    def _CreateArtifact(self, given: dict[str, Any]) -> dict[str, Any]:
        about = given["input"]
        name = (about.get("artifactCollectionNames") or [about.get("artifactCollectionName")])[0]
        self.artifacts.append({"name": name, "type": about["artifactTypeName"], "files": {}, "committed": False})
        artifact = {
            "id": str(len(self.artifacts) - 1),
            "state": "PENDING",
            "artifactSequence": {"latestArtifact": None},
        }
        return {"createArtifact": {"artifact": artifact}}

    def _CreateArtifactManifest(self, given: dict[str, Any]) -> dict[str, Any]:
        file = {"id": "1", "uploadUrl": f"{self.url}/artifact/{given['artifactID']}/manifest", "uploadHeaders": []}
        return {"createArtifactManifest": {"artifactManifest": {"id": "1", "file": file}}}

    def _UpdateArtifactManifest(self, given: dict[str, Any]) -> dict[str, Any]:
        file = {"id": "1", "uploadUrl": f"{self.url}/artifact/{len(self.artifacts) - 1}/manifest", "uploadHeaders": []}
        return {"updateArtifactManifest": {"artifactManifest": {"id": "1", "file": file}}}

    def _CreateArtifactFiles(self, given: dict[str, Any]) -> dict[str, Any]:
        nodes = []
        for one in given["input"]["artifactFiles"]:
            key, name = one["artifactID"], one["name"]
            url = f"{self.url}/artifact/{key}/{name}"
            node = {"storagePath": name, "uploadUrl": url, "uploadHeaders": [], "uploadMultipartUrls": None}
            nodes.append({"node": {**node, "artifact": {"id": key}}})
        return {"createArtifactFiles": {"files": {"edges": nodes}}}

    def _CommitArtifact(self, given: dict[str, Any]) -> dict[str, Any]:
        self.artifacts[int(given["artifactID"])]["committed"] = True
        return {"commitArtifact": {"artifact": {"id": given["artifactID"], "digest": ""}}}

    def _NotifyScriptableRunAlert(self, given: dict[str, Any]) -> dict[str, Any]:
        self.runs[given["runName"]].alerts.append(given)
        return {"notifyScriptableRunAlert": {"success": True}}


class Refused(Exception):
    """An answer that is no."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(why)
        self.code = code


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that has gone


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    remote: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer({})

    def do_PUT(self) -> None:
        body = self._body()
        if self._storm(self.remote.weather):
            return
        _, kind, key, name = self.path.split("/", 3)
        if kind == "put":
            self.remote.runs[key].files[name] = body
        else:
            self.remote.artifacts[int(key)]["files"][name] = body
        self._answer({})

    def do_POST(self) -> None:
        body = json.loads(self._body() or b"{}")
        given = self.headers.get("Authorization", "")
        if given.startswith("Basic "):
            self.remote.keys.add(base64.b64decode(given[6:]).decode().partition(":")[2])
        if self._storm(self.remote.weather):
            return
        if self.path == "/graphql":
            try:
                self._answer({"data": self.remote.graphql(body["query"], body.get("variables") or {})})
            except Refused as error:
                self._answer({"errors": [{"message": str(error)}]}, error.code)
            return
        found = re.match(r"/files/[^/]+/[^/]+/([^/]+)/file_stream", self.path)
        if found:
            if not self._storm(self.remote.stream_weather):
                self._answer(self.remote.stream(found.group(1), body))
            return
        self.remote.asked[self.path] += 1
        self._answer({})

    def _storm(self, weather: int | str | None) -> bool:
        """Whether the request was dealt with by the weather."""
        if weather is None:
            return False
        if isinstance(weather, int):
            self._answer({"error": "as the test wants it"}, weather)
            self.remote.storms += 1
            return True
        while self.remote.weather or self.remote.stream_weather:
            time.sleep(0.05)
        return False

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline().strip() or b"0", 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body

    def _answer(self, data: dict[str, Any], code: int = 200) -> None:
        body = json.dumps(data).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
