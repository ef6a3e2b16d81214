"""Workers of web servers share one model, examples/fastapi_one_model.py, or a limit, without a setting.

A killed server has the model of examples/restarted_server.py again.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.children import EXAMPLES, clean_environment, wait_until
from tests.helpers.kept_sessions import kept_session

APP = "fastapi_one_model:app"
GUNICORN = ["-m", "gunicorn", "--workers", "3", "--worker-class", "uvicorn_worker.UvicornWorker"]
GUNICORN += ["--no-control-socket", "--bind", "unix:{path}", APP]
RATE_LIMITED = ["-m", "gunicorn", "--workers", "4", "--no-control-socket", "--bind", "unix:{path}"]
RATE_LIMITED += ["rate_limited:application"]
RUN = "import uvicorn; uvicorn.run('fastapi_one_model:app', uds={path!r}, workers=3)"
SERVERS = {
    "uvicorn": ["-m", "uvicorn", "--workers", "3", "--uds", "{path}", APP],
    "uvicorn.run": ["-c", RUN],
    "gunicorn": GUNICORN,
    "gunicorn --preload": [*GUNICORN, "--preload"],
    "hypercorn": ["-m", "hypercorn", "--workers", "3", "--bind", "unix:{path}", APP],
}


class Connection(http.client.HTTPConnection):
    """A connection to a server at a path."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10)
        self.sock.connect(self._path)


def ask(path: str, url: str = "/nearest/7") -> Any:
    connection = Connection(path)
    try:
        connection.request("GET", url)
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def first_answer(path: str, url: str = "/nearest/7") -> Any:
    """Ask until the server answers: its socket has a name some time before the server listens."""
    found: list[Any] = []

    def answered() -> bool:
        with suppress(OSError, http.client.HTTPException):
            found.append(ask(path, url))
        return bool(found)

    wait_until(answered, 60, "the first answer")
    return found[0]


def answers(path: str, workers: int) -> tuple[set[int], set[int]]:
    """Ask until that many workers have answered; return their pids and those that loaded their models."""
    pids: set[int] = set()
    builders: set[int] = set()

    def all_answered() -> bool:
        try:
            answer = ask(path)
        except (OSError, http.client.HTTPException):
            return False
        pids.add(answer["pid"])
        builders.add(answer["loaded_by"])
        return len(pids) >= workers

    wait_until(all_answered, 60, lambda: f"{workers} workers; {pids} have answered")
    return pids, builders


@contextmanager
def serve(server: list[str], path: str, folder: Path = EXAMPLES, **env: str):
    command = [part.format(path=path) for part in server]
    with (
        open(f"{path}.log", "w") as log,
        subprocess.Popen(
            [sys.executable, *command],
            cwd=folder,
            env=clean_environment(OPENBLAS_NUM_THREADS="1", **env),
            stdout=log,
            stderr=log,
            start_new_session=True,
        ) as master,
    ):
        try:
            yield master
            master.send_signal(signal.SIGTERM)
            master.wait(30)
        finally:
            if master.poll() is None:
                print(Path(f"{path}.log").read_text())
                os.killpg(master.pid, signal.SIGKILL)


@pytest.mark.parametrize("server", SERVERS)
def test_one_worker_loads_the_model_for_all(server, tmp_path) -> None:
    path = str(tmp_path / "socket")
    with serve(SERVERS[server], path):
        pids, builders = answers(path, 3)
        assert len(builders) == 1
        assert builders <= pids
        assert "Warning" not in Path(f"{path}.log").read_text()


def test_worker_that_replaces_a_killed_one_attaches(tmp_path) -> None:
    path = str(tmp_path / "socket")
    with serve(GUNICORN, path):
        _, builders = answers(path, 3)
        (builder,) = builders
        os.kill(builder, signal.SIGKILL)
        time.sleep(0.1)
        wait_until(lambda: not Path(f"/proc/{builder}").exists(), 30, "the master to notice")
        later, same = answers(path, 3)
        assert builder not in later
        assert same == builders


def test_servers_have_models_of_their_own(tmp_path) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    with serve(SERVERS["uvicorn"], first), serve(SERVERS["uvicorn"], second):
        (pids, builders), (others, other_builders) = answers(first, 2), answers(second, 2)
        assert not pids & others
        assert builders != other_builders


def serve_until_killed(server: list[str], path: str, env: dict[str, str]) -> tuple[Any, str]:
    """Return the first answer, and what the server printed; print after how many seconds it answered."""
    Path(path).unlink(missing_ok=True)  # with several workers, uvicorn refuses that of a killed server
    begin = time.monotonic()
    with serve(server, path, **env) as master:
        answer = first_answer(path)
        print(f"answered after {time.monotonic() - begin:.2f} s")
        os.killpg(master.pid, signal.SIGKILL)
    return answer, Path(f"{path}.log").read_text()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_killed_server_has_its_model_again(workers: str, tmp_path: Path) -> None:
    path = str(tmp_path / "socket")
    server = ["-m", "uvicorn", "--workers", workers, "--uds", path, "restarted_server:app"]
    with kept_session("server") as session:
        answer, _ = serve_until_killed(server, path, session.env)
        for _ in range(2):
            session.wait_until_left("model")
            again, printed = serve_until_killed(server, path, session.env)
            assert again == answer, "another model, or loaded by another process"
            print(re.findall("model after .*", printed))


@pytest.mark.parametrize("preload", [[], ["--preload"]], ids=["", "--preload"])
def test_workers_share_a_limit(preload, tmp_path) -> None:
    """As many workers as there are units are killed with one; the requests of the others go on."""
    path, programs = str(tmp_path / "socket"), Path(__file__).with_name("programs")
    with serve([*RATE_LIMITED, *preload], path, programs), ThreadPoolExecutor(8) as threads:
        assert first_answer(path, "/") == 1
        assert list(threads.map(ask, [path] * 40, ["/"] * 40))[-1] == 2
        for _ in range(2):
            with pytest.raises((OSError, http.client.HTTPException)):
                ask(path, "/crash")
        assert len(list(threads.map(ask, [path] * 40, ["/"] * 40))) == 40
