"""The fork server imports this package once, for all workers."""

from __future__ import annotations

import pytest

from tests.helpers.children import run_program, write_program

PROGRAM = """
    import os
    import sys

    def report(pipe):
        with open(f"/proc/{os.getppid()}/maps") as server:
            pipe.send(("/shmtensor/_core" in server.read(), "colorsys" in sys.modules))

    if __name__ == "__main__":
        import shmtensor.multiprocessing as mp  # since 3.13.8 the server imports this module

        context = mp.get_context("forkserver")
        if sys.argv[1] == "chosen":
            mp.set_forkserver_preload(["colorsys"])
        elif sys.argv[1] == "none":
            mp.set_forkserver_preload([])
        for _ in range(2):
            pipe, end = context.Pipe()
            process = context.Process(target=report, args=(end,))
            process.start()
            print(*pipe.recv())
            process.join()
            mp.set_forkserver_preload(["decimal"])  # too late, as in the standard library
"""


@pytest.mark.parametrize("modules", ["default", "chosen", "none"])
def test_fork_server_has_imported_the_package(modules, tmp_path) -> None:
    """Regression: each worker imported NumPy and the package, which took ten times as long as its start."""
    done = run_program(write_program(tmp_path, PROGRAM), modules)
    assert done.stdout == f"True {modules == 'chosen'}\n" * 2, done.stderr
