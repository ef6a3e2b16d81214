"""A notebook's kernel that is restarted has its data: an example of kept objects."""

from __future__ import annotations

from tests.helpers.children import output, run_example
from tests.helpers.kept_sessions import kept_session


def test_restarted_kernel_has_its_table_again() -> None:
    with kept_session("notebook") as session:
        first = output(run_example("notebook_restart.py", env=session.env))
        assert first.startswith("preparing\nrevenue ")
        session.wait_until_left("table")
        assert session.names() == {"table": 3600}
        assert f"preparing\n{output(run_example('notebook_restart.py', env=session.env))}" == first
