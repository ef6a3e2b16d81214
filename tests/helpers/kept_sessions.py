"""Sessions without a process, of which the manager keeps some objects."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shmtensor import _core
from tests.helpers.children import await_end_of_manager, output, run_python, wait_until
from tests.helpers.leaks import shm_names

ATTACH = "import shmtensor as st; print(st.attach('weights'))"


class KeptSession:
    """A session with a name, which programs enter one after the other."""

    def __init__(self, name: str, env: dict[str, str]) -> None:
        self.name = f"{name} {os.getpid()}"
        self.id = _core.session_named(self.name)
        self.env = env | {"SHMTENSOR_SESSION": self.name}

    def python(self, code: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run a program text in the session."""
        return run_python(code, env=self.env | env, arguments=arguments)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `shmtensor`."""
        code = "import sys; from shmtensor.cli import main; sys.exit(main(sys.argv[1:]))"
        return run_python(code, env=self.env, arguments=words)

    def seen(self) -> dict[str, Any]:
        """Return what is in the session; no names if it has ended."""
        return _core.observe(self.id) or {"names": [], "processes": [], "arenas": [], "blocks": 0}

    def names(self) -> dict[str, Any]:
        """Return the names of the session, and for how long each is kept."""
        return {one["name"]: one["keep"] for one in self.seen()["names"]}

    def wait_until_left(self, *names: str) -> None:
        """Wait until the session has no process, and ended or has only these names."""
        wait_until(
            lambda: self.names().keys() == set(names) and not self.seen()["processes"],
            what=lambda: f"only {names} in {self.seen()}",
        )

    def end(self) -> None:
        """Drop what is left, and wait for the end of the session: it leaves nothing."""
        for name in self.names():
            output(self.command("drop", self.id, name))
        await_end_of_manager(self.id)
        assert not shm_names(self.id)


@contextmanager
def kept_session(name: str, **env: str) -> Iterator[KeptSession]:
    """Make a session that has ended afterwards."""
    session = KeptSession(name, env)
    try:
        yield session
    finally:
        session.end()
