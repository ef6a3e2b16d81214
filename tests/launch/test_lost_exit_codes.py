"""Exit codes are lost if SIGCHLD is ignored, or its handler waits for any child."""

from __future__ import annotations

import pytest

from tests.helpers.children import run_beside

ENDS = """\
return 0 0
raise OverflowError('the true cause') 1
exit 3 process 0 terminated with exit code 3 by sys.exit False
kill """


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "settings"), [("fork", None), ("spawn", None), ("spawn", {"A": "1"})], ids=str
)
@pytest.mark.parametrize("taken", ["ignored", "by a handler"])
def test_lost_exit_codes_are_replaced_by_reports(method, settings, taken) -> None:
    """Regression: `join` waited indefinitely; some launchers start programs with SIGCHLD ignored."""
    done = run_beside(__file__, "lost_exit_codes", method, str(settings), taken)
    assert done.stdout.startswith(ENDS), done
    if taken == "ignored":  # else either the handler or `join` gets it first
        assert "kill 255 process 0 exited without a report; its exit status was lost: " in done.stdout
        assert "wait 255 process 0 exited without a report; its exit status was lost: " in done.stdout
    assert done.stdout.endswith(" False\n"), "a worker that was terminated is not a failure"
