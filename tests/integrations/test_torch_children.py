"""Torch's tensors between processes: every start method, deaths, and the limits that torch meets."""

from __future__ import annotations

import json
import sys

import pytest

from tests.helpers.children import importing_tests, run_command, run_program, run_python, write_program
from tests.helpers.namespaces import with_own_mounts

METHODS = ["fork", "spawn", "forkserver", "server"]

ROUND_TRIPS = """
    import json
    import sys
    import warnings

    import multiprocessing
    import torch
    import torch.multiprocessing


    def add(tensor):
        tensor += 1
        return tensor


    def take(inbox, outbox):
        # This module does not import shmtensor: what it sends is a handle since its parent installed it.
        from multiprocessing.reduction import ForkingPickler

        made = torch.zeros(100_000)
        outbox.put((add(inbox.get()), made, len(ForkingPickler.dumps(made))))
        inbox.get()  # torch's sender must live until its tensor is received


    def train(model, times):
        for _ in range(times):
            model.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= parameter.grad


    def spawned(index, model, tensor):
        tensor[index] = index + 1
        with torch.no_grad():
            model.bias[index] = index


    def check(context):
        seen = []
        tensor = torch.zeros(1000).share_memory_()
        inbox, outbox = context.Queue(), context.Queue()
        process = context.Process(target=take, args=(inbox, outbox))
        process.start()
        inbox.put(tensor)
        mine, made, size = outbox.get(timeout=60)
        seen += [mine.sum().item(), tensor.sum().item(), made.sum().item()]
        inbox.put(None)
        process.join(60)
        assert process.exitcode == 0
        with context.Pool(1) as pool:
            seen += [pool.apply(add, (tensor,)).sum().item(), tensor.sum().item()]
        model = torch.nn.Linear(2, 2).share_memory()
        before = model.weight.clone()
        process = context.Process(target=train, args=(model, 2))
        process.start()
        process.join(60)
        seen.append((before - model.weight).round().tolist())
        argument = torch.zeros(1000)
        process = context.Process(target=add, args=(argument,))
        process.start()
        process.join(60)
        seen.append(argument.sum().item())
        return seen, size


    if __name__ == "__main__":
        method, on = sys.argv[1], sys.argv[2] == "on"
        torch.set_num_threads(1)
        if on:
            import shmtensor as st

            st.install("torch")
        context = torch.multiprocessing.get_context(method)
        seen, size = check(context)
        assert not on or size < 1000
        if method != "server":
            model, tensor = torch.nn.Linear(2, 2).share_memory(), torch.zeros(2).share_memory_()
            torch.multiprocessing.start_processes(spawned, (model, tensor), nprocs=2, start_method=method)
            seen.append([model.bias.tolist(), tensor.tolist()])
        print(json.dumps(seen))
    """

EXPECTED = [1000, 1000, 0, 2000, 2000, [[2, 2], [2, 2]], 1000]  # all see each other's writes


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("method", "on"),
    [(method, on) for on in ("on", "off") for method in METHODS if (method, on) != ("server", "off")],
)
def test_results_are_equal_with_and_without_the_integration(tmp_path, method, on) -> None:
    done = run_program(write_program(tmp_path, ROUND_TRIPS), method, on, timeout=110)
    assert done.returncode == 0, done.stderr
    expected = list(EXPECTED) if method == "server" else [*EXPECTED, [[0, 1], [1, 2]]]
    if method == "fork":
        expected[6] = 0  # a forked child has a copy of a private argument
    assert json.loads(done.stdout) == expected


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


DEATHS = """
    import os
    import pickle
    import signal
    import sys
    import time
    from multiprocessing.reduction import ForkingPickler

    import torch

    import shmtensor as st
    from tests.helpers.children import wait_until


    def settled() -> bool:
        st.gc(older_than=0)
        return (st.stats()["blocks"], st.stats()["in_flight"]) == (0, 0)


    def child(work):
        pid = os.fork()
        if pid == 0:
            work()
            time.sleep(60)
            os._exit(1)
        return pid


    def kill(pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


    if __name__ == "__main__":
        st.install("torch")
        st.zeros(1)
        assert settled()

        # Killed after it has reduced, before it has sent.
        reader, writer = os.pipe()
        pid = child(lambda: (ForkingPickler.dumps([torch.ones(1000)] * 3), os.write(writer, b".")))
        os.read(reader, 1)
        kill(pid)
        wait_until(settled, what=lambda: str(st.stats()))

        # Killed after the sender has reduced, before it rebuilds.
        message = bytes(ForkingPickler.dumps([torch.ones(1000), torch.ones(5)]))
        pid = child(lambda: os.write(writer, b"."))
        os.read(reader, 1)
        kill(pid)
        assert pickle.loads(message)[0].sum() == 1000
        wait_until(settled, what=lambda: str(st.stats()))

        # Killed while it holds what it has rebuilt.
        message = bytes(ForkingPickler.dumps(torch.ones(1000)))

        def rebuild():
            global kept
            kept = pickle.loads(message)
            os.write(writer, b".")

        pid = child(rebuild)
        os.read(reader, 1)
        assert st.stats()["blocks"] == 1
        kill(pid)
        wait_until(settled, what=lambda: str(st.stats()))

        # The sender is killed, the receiver has the tensor.
        q = st.Queue()
        pid = child(lambda: (q.put(torch.arange(1000)), os.write(writer, b".")))
        os.read(reader, 1)
        kill(pid)
        assert q.get(timeout=10).sum() == 499500
        del q
        wait_until(settled, what=lambda: str(st.stats()))
        print("fine")
    """


def test_killed_processes_leave_nothing(tmp_path) -> None:
    done = run_program(write_program(tmp_path, DEATHS), env=importing_tests())
    assert done.stdout == "fine\n", done


MANY = """
    import os
    import resource
    import sys

    import torch
    import torch.multiprocessing
    from torch.utils.data import DataLoader, Dataset


    class Samples(Dataset):
        def __len__(self):
            return 1000

        def __getitem__(self, index):
            return [torch.full((4,), index + 0.5) for _ in range(100)]


    def first(batch):
        return batch[0]


    if __name__ == "__main__":
        import shmtensor as st

        st.install("torch")
        torch.set_num_threads(1)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
        loader = DataLoader(Samples(), batch_size=1, num_workers=1, collate_fn=first)
        batches = list(loader)  # 100,000 tensors are alive
        assert len(batches) == 1000
        assert all(batch[99][3] == index + 0.5 for index, batch in enumerate(batches))
        assert len(os.listdir("/proc/self/fd")) < 64
        print(sum(len(batch) for batch in batches))
    """


def test_hundred_thousand_tensors_with_64_descriptors(tmp_path) -> None:
    """Without the integration, torch fails with `received 0 items of ancdata` or `Too many open files`."""
    done = run_program(write_program(tmp_path, MANY), timeout=110)
    assert done.stdout == "100000\n", done


SMALL_SHM = """
    import os

    import torch
    from torch.utils.data import DataLoader, Dataset


    class Samples(Dataset):
        def __len__(self):
            return 64

        def __getitem__(self, index):
            return torch.full((1 << 20,), float(index))


    if __name__ == "__main__":
        import shmtensor as st

        st.install("torch")
        torch.set_num_threads(1)
        assert os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_bsize == 64 << 20
        batches = list(DataLoader(Samples(), batch_size=8, num_workers=2))  # 256 MiB
        assert [batch[3, 5].item() for batch in batches] == [3 + 8 * i for i in range(8)]
        model = torch.nn.Linear(4096, 8192).share_memory()  # 128 MiB
        assert model.weight.is_shared()
        print("fine")
    """


def test_small_dev_shm_is_not_a_limit(tmp_path) -> None:
    path = write_program(tmp_path, SMALL_SHM)
    command = with_own_mounts('mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$0" "$1"')
    done = run_command([*command, sys.executable, str(path)], timeout=110)
    assert done.stdout == "fine\n", done


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
