"""Torch's tensors between processes: every start method, deaths, and the limits that torch meets."""

from __future__ import annotations

import json
import sys

import pytest

from tests.helpers.children import run_command, run_program, run_python, write_program
from tests.helpers.namespaces import with_own_mounts
from tests.integrations.programs import PROGRAMS, succeed

METHODS = ["fork", "spawn", "forkserver", "server"]

EXPECTED = [1000, 1000, 0, 2000, 2000, [[2, 2], [2, 2]], 1000]  # all see each other's writes


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "on"),
    [(method, on) for on in ("on", "off") for method in METHODS if (method, on) != ("server", "off")],
)
def test_results_are_equal_with_and_without_the_integration(method, on) -> None:
    expected = list(EXPECTED) if method == "server" else [*EXPECTED, [[0, 1], [1, 2]]]
    if method == "fork":
        expected[6] = 0  # a forked child has a copy of a private argument
    assert json.loads(succeed("torch_round_trips.py", method, on)) == expected


ALIAS = """
    import sys

    import torch
    import torch.multiprocessing


    def fill(tensor):
        tensor.fill_(4)
        return tensor.add(1)


    if __name__ == "__main__":
        import shmtensor as st

        torch.set_num_threads(1)
        st.install("torch", alias=True)
        buffers = [torch.zeros(2, 2) for _ in range(4)]
        views = [buffer[1] for buffer in buffers]
        with torch.multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
            results = pool.map(fill, buffers)
        assert all(buffer.tolist() == [[4, 4], [4, 4]] for buffer in buffers)
        assert all(view.tolist() == [4, 4] for view in views)
        assert all(result.tolist() == [[5, 5], [5, 5]] for result in results)
        print("fine")
    """


@pytest.mark.parametrize("method", METHODS)
def test_workers_change_what_the_sender_has_with_alias(tmp_path, method) -> None:
    """As in torch's own tests of its pools."""
    done = run_program(write_program(tmp_path, ALIAS), method, timeout=110)
    assert done.stdout == "fine\n", done


def test_killed_processes_leave_nothing() -> None:
    succeed("torch_deaths.py")


def test_hundred_thousand_tensors_with_64_descriptors() -> None:
    """Without the integration, torch fails with `received 0 items of ancdata` or `Too many open files`."""
    succeed("torch_limits.py", "few_descriptors")


def test_small_dev_shm_is_not_a_limit() -> None:
    command = with_own_mounts('mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$0" "$@"')
    program = [sys.executable, str(PROGRAMS / "torch_limits.py"), "small_dev_shm"]
    done = run_command([*command, *program], timeout=110)
    assert done.returncode == 0, done.stderr


@pytest.mark.thorough
def test_worker_server_preloads_torch() -> None:
    """Regression: each worker imported torch. A server that runs already is replaced."""
    done = run_python(
        """
        import torch

        import shmtensor as st
        import shmtensor.multiprocessing as mp
        from shmtensor.multiprocessing._worker_server.client import client

        def server_has_torch():
            mp.start_processes(abs, start_method="server")
            return "libtorch" in open(f"/proc/{client._server.pid}/maps").read()

        print(server_has_torch())
        st.install("torch")
        print(server_has_torch())
        mp.set_server_preload(["decimal"])
        print(server_has_torch())
        """
    )
    assert done.stdout == "False\nTrue\nTrue\n", done.stderr


def test_auto_does_not_fork_the_threads_of_torch() -> None:
    """Regression: the worker's first product of matrices never ended."""
    done = run_python(
        """
        import multiprocessing

        import torch

        import shmtensor.multiprocessing as mp

        def product():
            matrix = torch.ones(500, 500)
            return (matrix @ matrix)[0, 0].item()

        multiprocessing.set_start_method("fork")
        torch.set_num_threads(2)
        torch.ones(500_000).add(1).sum()
        product()
        with mp.get_context("auto").Pool(1) as pool:
            print(pool.apply(product))
        """
    )
    assert (done.stdout, done.returncode) == ("500.0\n", 0), done.stderr
    assert "other threads run in this process" in done.stderr
