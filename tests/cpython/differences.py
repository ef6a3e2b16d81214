"""CPython's tests that are expected to fail on the drop-in, each with the reason."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    test: str  # class and method
    reason: str
    modules: tuple[str, ...] = ("with_fork", "with_spawn", "with_forkserver", "with_server")
    since: tuple[int, ...] = (3, 10)  # versions of Python
    before: tuple[int, ...] = (3, 99)

    def applies(self, module: str) -> bool:
        return module in self.modules and self.since <= sys.version_info < self.before


_SERVER = ("with_server",)
_IMMEDIATE = "put pickles immediately, and raises in the caller"

DIFFERENCES = (
    Difference("WithProcessesTestQueue.test_queue_feeder_donot_stop_onexc", _IMMEDIATE),
    Difference("WithProcessesTestQueue.test_queue_feeder_on_queue_feeder_error", _IMMEDIATE),
    *(
        Difference(f"WithProcessesTestConnection.{test}", "a pipe has no descriptor for its bytes")
        for test in ("test_fd_transfer", "test_large_fd_transfer", "test_missing_fd_transfer")
    ),
    Difference(
        "TestIgnoreEINTR.test_ignore",
        "a pipe has room for what the child sends, so it has ended when the test sends it a signal",
        ("with_forkserver", "with_server"),  # whose children do not remain as zombies
    ),
    Difference(
        "TestStartMethod.test_mixed_startmethod",
        "a queue of any context goes to any process",
        ("with_spawn",),
        since=(3, 11),
        before=(3, 14),  # whose test skips itself here
    ),
    *(
        Difference(
            f"With{kind}TestQueue.test_closed_queue_empty_exceptions",
            "`close` closes a queue that was not used, too",
            since=(3, 13),
        )
        for kind in ("Processes", "Manager", "Threads")  # the test makes the same queues for all
    ),
    *(
        Difference(
            f"WithProcessesTestCondition.{test}", "it reads private semaphores of the standard library"
        )
        for test in ("test_notify", "test_notify_all", "test_notify_n")
    ),
    *(
        Difference(
            f"WithProcessesTestLock.{test}", "`repr` does not show a lock's owner", since=since, before=end
        )
        for test in ("test_repr_lock", "test_repr_rlock")
        for since, end in (((3, 12, 8), (3, 13)), ((3, 13, 1), (3, 99)))  # where the tests are
    ),
    *(
        Difference(f"TestResourceTracker.{test}", "a semaphore has no name, and no tracker")
        for test in ("test_resource_tracker", "test_resource_tracker_sigkill")
    ),
    Difference("TestStartMethod.test_get_all", "there is one start method more", before=(3, 14)),
    Difference("TestStartMethod.test_get_all_start_methods", "there is one start method more", since=(3, 14)),
    Difference(
        "TestStartMethod.test_import_does_not_determine_default_start_method",
        "its interpreter has no site-packages, where this package is",
        since=(3, 14),
    ),
    Difference("_TestImportStar.test_import", "it reads the folder of the package, which has other files"),
    Difference("TestFlags.test_flags", "its interpreter has no site-packages, where this package is"),
    Difference(
        "WithProcessesTestFinalize.test_finalize", "a finalizer closes the worker server at exit", _SERVER
    ),
    Difference("TestNoForkBomb.test_noforkbomb", "a program without a guard works", _SERVER),
    Difference(
        "WithProcessesTestPoolWorkerErrors.test_unpickleable_result", "a lambda can be sent back", _SERVER
    ),
)
