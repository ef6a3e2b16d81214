"""Programs that are killed and started again have their data: examples of kept objects."""

from __future__ import annotations

import re
import subprocess
import sys
from urllib.request import urlopen

from tests.helpers.children import EXAMPLES, clean_environment, output, run_example
from tests.helpers.kept_sessions import KeptSession, kept_session


def serve_until_killed(session: KeptSession) -> tuple[list[str], bytes]:
    """Return what the server printed before the line with its port, and its answer."""
    with subprocess.Popen(
        [sys.executable, str(EXAMPLES / "restarted_server.py"), "0"],
        env=clean_environment(**session.env),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            lines = [server.stdout.readline()]
            while (ready := re.match(r"port (\d+): model after", lines[-1])) is None:
                assert lines[-1], "the server has ended"
                lines.append(server.stdout.readline())
            with urlopen(f"http://127.0.0.1:{ready[1]}/17", timeout=60) as answer:
                return lines[:-1], answer.read()
        finally:
            server.kill()


def test_killed_server_has_its_model_again() -> None:
    with kept_session("server") as session:
        printed, answer = serve_until_killed(session)
        assert printed == ["loading\n"]
        session.wait_until_left("vectors")
        assert serve_until_killed(session) == ([], answer)


def test_restarted_kernel_has_its_table_again() -> None:
    with kept_session("notebook") as session:
        first = output(run_example("notebook_restart.py", env=session.env))
        assert first.startswith("preparing\nrevenue ")
        session.wait_until_left("table")
        assert session.names() == {"table": 3600}
        assert f"preparing\n{output(run_example('notebook_restart.py', env=session.env))}" == first
