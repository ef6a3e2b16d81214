"""The state in which workers of the worker server start, and the failures that the server survives."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import shmtensor.multiprocessing as mp
from shmtensor.multiprocessing._worker_server.client import client
from tests.helpers.children import (
    clean_environment,
    end,
    importing_tests,
    is_running,
    program_beside,
    run_command,
    run_program,
    run_python,
    running,
    wait_until,
    write_program,
)
from tests.helpers.server_programs import run_with_server
from tests.helpers.threads import run_together


def ask(function, *args, nprocs=1):
    return mp.start_processes(function, args, nprocs=nprocs, join=False, start_method="server").results()


def see(rank):
    with open("/proc/self/status") as file:
        umask = next(line.split()[1] for line in file if line.startswith("Umask"))
    return os.getcwd(), os.environ.get("LAUNCH_A"), sys.path.copy(), sys.argv, umask


def test_worker_inherits_the_state_at_the_request(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAUNCH_A", "now")
    monkeypatch.setattr(sys, "argv", ["program", "argument"])
    monkeypatch.syspath_prepend(str(tmp_path))
    before = os.umask(0o027)
    try:
        (seen,) = ask(see)
    finally:
        os.umask(before)
    assert seen == (str(tmp_path), "now", sys.path, ["program", "argument"], "0027")
    monkeypatch.delenv("LAUNCH_A")
    assert ask(see)[0][1] is None


def see_state(rank):
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    names = sorted(os.listdir("/proc/self/fd"))
    return [repr(handler) for handler in handlers], blocked, len(os.listdir("/proc/self/task")), len(names)


def test_signal_handlers_are_the_interpreter_s() -> None:
    ((handlers, blocked, threads, _),) = ask(see_state)
    expected = [signal.default_int_handler, signal.SIG_DFL, signal.SIG_DFL]
    assert handlers == [repr(handler) for handler in expected]
    assert blocked == set()
    assert threads == 1


def test_workers_do_not_share_descriptors() -> None:
    counts = {seen[3] for seen in ask(see_state, nprocs=4)}
    assert len(counts) == 1


def draw(rank):
    return random.random(), float(np.random.random())


def test_random_generators_differ() -> None:
    drawn = ask(draw, nprocs=4)
    assert len({first for first, _ in drawn}) == 4
    assert len({second for _, second in drawn}) == 4


def server_status() -> dict[str, str]:
    with open(f"/proc/{client._server.pid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def test_server_is_single_and_has_one_thread() -> None:
    ask(draw)
    pid = client._server.pid
    ask(draw)
    assert client._server.pid == pid
    assert server_status()["Threads"] == "1"
    with open(f"/proc/{pid}/cmdline") as file:
        assert "shmtensor.multiprocessing._worker_server.server" in file.read(), (
            "started by exec of a library's entry"
        )


def test_server_ignores_sigint() -> None:
    ask(draw)
    pid = client._server.pid
    os.kill(pid, signal.SIGINT)
    ask(draw)
    assert client._server.pid == pid


def test_server_survives_killed_workers() -> None:
    ask(draw)
    pid = client._server.pid
    for _ in range(5):
        with running(mp.get_context("server"), time.sleep, 60) as process:
            process.kill()
        assert process.exitcode == -signal.SIGKILL
    assert client._server.pid == pid


def answer(queue, go) -> None:
    queue.put(os.getpid())
    assert go.wait(60)


def test_workers_survive_a_killed_server() -> None:
    context = mp.get_context("server")
    queue, go = context.SimpleQueue(), context.Event()
    with running(context, answer, queue, go) as first:
        assert queue.get() == first.pid
        killed = client._server.pid
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: not is_running(killed))
        assert first.is_alive()
        second = context.Process(target=answer, args=(queue, go))
        second.start()
        assert queue.get() == second.pid
        assert client._server.pid != killed
        go.set()
    end(second)
    assert second.exitcode == 0
    assert first.exitcode == 255, "the exit code is unknown"


def test_server_killed_while_spawn_waits() -> None:
    """The exit codes are lost, the reports of the workers arrive."""
    context = mp.get_context("server")
    queue, go = context.SimpleQueue(), context.Event()
    workers = mp.start_processes(answer_rank, (queue, go), nprocs=2, join=False, start_method="server")
    assert {queue.get(), queue.get()} == set(workers.pids())
    os.kill(client._server.pid, signal.SIGKILL)
    go.set()
    with pytest.raises(mp.ProcessExitedException, match="exit code 255 after its function returned"):
        workers.join()
    assert not any(map(is_running, workers.pids()))


def answer_rank(rank, queue, go) -> None:
    answer(queue, go)


@pytest.mark.thorough
def test_many_threads_start_workers() -> None:
    results = []
    run_together(*[lambda: results.append(ask(draw, nprocs=2))] * 4)
    assert len(results) == 4


def test_forked_child_starts_its_own_server() -> None:
    done = run_python(
        """
        import os
        import shmtensor.multiprocessing as mp
        from shmtensor.multiprocessing._worker_server.client import client
        def work(rank):
            return rank
        mp.spawn(work, start_method="server")
        first = client._server.pid
        if (pid := os.fork()) == 0:
            results = mp.spawn(work, nprocs=2, join=False, start_method="server").results()
            os._exit(results != [0, 1] or client._server.pid == first)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert mp.spawn(work, nprocs=2, join=False, start_method="server").results() == [0, 1]
        assert client._server.pid == first
        print("done")
        """
    )
    assert done.stdout == "done\n", done.stderr


def test_output_follows_the_program_s_redirection(tmp_path) -> None:
    program = """
        import os, sys
        import shmtensor.multiprocessing as mp
        def work(rank):
            print("from the worker")
        mp.spawn(work, start_method="server")
        with open(sys.argv[1], "w") as file:
            kept = os.dup(1)
            os.dup2(file.fileno(), 1)
            mp.spawn(work, start_method="server")
            os.dup2(kept, 1)
        mp.spawn(work, start_method="server")
    """
    done = run_program(write_program(tmp_path, program), str(tmp_path / "out"))
    assert done.stdout == "from the worker\n" * 2, done.stderr
    assert (tmp_path / "out").read_text() == "from the worker\n"


def test_input_follows_the_program_s_redirection(tmp_path) -> None:
    """Regression: workers had the standard input with which the server was started."""
    (tmp_path / "input").write_text("redirected")
    done = run_program(
        write_program(
            tmp_path,
            """
            import os, sys
            import shmtensor.multiprocessing as mp
            def read(rank):
                return os.read(0, 100)
            def ask():
                context = mp.start_processes(read, nprocs=1, join=False, start_method="server")
                return context.results()
            first = ask()
            os.dup2(os.open(sys.argv[1], os.O_RDONLY), 0)
            print(first, ask())
            """,
        ),
        str(tmp_path / "input"),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[b''] [b'redirected']\n"


def test_server_preloads_modules(tmp_path) -> None:
    (tmp_path / "slow_module.py").write_text("import os\nPID = os.getpid()\n")
    (tmp_path / "broken_module.py").write_text("1 / 0\n")
    program = """
        import os, sys, warnings
        import shmtensor.multiprocessing as mp
        from shmtensor.multiprocessing._worker_server.client import client
        def work(rank):
            import slow_module
            return slow_module.PID, os.getpid()
        mp.set_server_preload(["slow_module"])
        pairs = mp.spawn(work, nprocs=2, join=False, start_method="server").results()
        assert [pid for pid, _ in pairs] == [client._server.pid] * 2
        first = client._server.pid
        mp.set_server_preload(["slow_module", "broken_module", "missing_module"])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pairs = mp.spawn(work, nprocs=2, join=False, start_method="server").results()
        assert client._server.pid != first
        text = str(caught[0].message)
        for words in ("broken_module (ZeroDivisionError", "missing_module (ModuleNotFoundError"):
            assert words in text, text
        print("done")
    """
    done = run_program(write_program(tmp_path, program))
    assert done.stdout == "done\n", done.stderr


@pytest.mark.parametrize("wrong", ["numpy", [1]], ids=str)
def test_invalid_names_of_modules_to_preload_are_rejected(wrong) -> None:
    with pytest.raises(TypeError, match=re.escape(repr(wrong))):
        mp.set_server_preload(wrong)


def test_server_start_failure_is_reported(tmp_path) -> None:
    (tmp_path / "uses_cuda.py").write_text(
        "from shmtensor.multiprocessing._worker_server import server\n"
        "server.cuda_is_initialised = lambda: True\n"
    )
    program = """
        import shmtensor.multiprocessing as mp
        mp.set_server_preload(["uses_cuda"])
        try:
            mp.spawn(print, start_method="server")
        except ChildProcessError as error:
            print(error)
    """
    done = run_program(write_program(tmp_path, program))
    assert done.stdout.startswith("the worker server could not start"), done.stderr
    assert "a preloaded module initialised CUDA, which the worker server must not: uses_cuda" in done.stderr


IN_FLIGHT = """
    import os, sys, time
    import shmtensor.multiprocessing as mp
    from shmtensor.multiprocessing._worker_server.client import client
    def work(rank):
        time.sleep(100)
    process = mp.get_context("server").Process(target=work, args=(0,))
    process.start()
    workers = mp.spawn(work, nprocs=2, join=False, start_method="server")
    print(client._server.pid, *workers.pids(), flush=True)
    print(process.pid, flush=True)
    time.sleep(100)
"""


def test_server_ends_with_its_client(tmp_path) -> None:
    """Workers of `spawn` end immediately; a plain Process keeps running as in the standard library."""
    program = write_program(tmp_path, IN_FLIGHT)
    process = subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, env=clean_environment(), text=True
    )
    server, *workers = map(int, process.stdout.readline().split())
    plain = int(process.stdout.readline())
    process.kill()
    process.wait(30)
    process.stdout.close()
    wait_until(lambda: not any(map(is_running, workers)), what="the workers' end")
    assert is_running(plain)
    assert is_running(server), "it has a worker to wait for"
    os.kill(plain, signal.SIGKILL)
    wait_until(lambda: not is_running(server), what="the server's end")


def test_descriptor_limit_is_named() -> None:
    files = [os.open("/dev/null", os.O_RDONLY) for _ in range(260)]
    try:
        with pytest.raises(ValueError, match="253 descriptors, not 260"):
            client.start_worker(files)
    finally:
        for fd in files:
            os.close(fd)
    assert ask(draw)


@pytest.mark.thorough
@pytest.mark.parametrize("victim", ["worker", "server", "parent"])
@pytest.mark.parametrize("moment", [0.0, 0.003, 0.01, 0.03, 0.1])
def test_random_kills_leave_nothing(victim, moment) -> None:
    """Kills during start, work and exit; all processes are found by their process group."""
    process = subprocess.Popen(
        [sys.executable, str(program_beside(__file__, "random_kills")), victim, str(moment)],
        stdout=subprocess.PIPE,
        env=clean_environment(**importing_tests()),
        text=True,
        start_new_session=True,
    )
    out, _ = process.communicate(timeout=60)
    assert out.splitlines()[-1] == ("killing" if victim == "parent" else "done")
    from tests.launch.test_parent_death import group

    wait_until(lambda: not group(process.pid), what="the end of all")


def test_default_socket_timeout_is_ignored(tmp_path) -> None:
    """Regression: the timeout applied to the connection to the server, which takes longer to start."""
    run_with_server(
        tmp_path,
        """
        import socket
        socket.setdefaulttimeout(1e-6)
        with context.Pool(2) as pool:
            assert pool.map(abs, range(-3, 0)) == [3, 2, 1]
        process = context.Process(target=sys.exit, args=(7,))
        process.start()
        process.join()
        assert process.exitcode == 7
        """,
    )


def test_exit_with_a_running_server_warns_of_nothing(tmp_path) -> None:
    """Regression: ResourceWarnings of a subprocess that is still running and of an unclosed socket."""
    program = """
        import shmtensor.multiprocessing as mp
        if __name__ == "__main__":
            pool = mp.get_context("server").Pool(1)  # is not closed, of which the standard library warns
            assert pool.apply(abs, (-3,)) == 3
            process = mp.get_context("server").Process(target=print, args=("ended",))
            process.start()
    """
    path = write_program(tmp_path, program)
    done = run_command([sys.executable, "-X", "dev", "-W", "error", str(path)])
    assert (done.returncode, done.stdout) == (0, "ended\n")
    assert "subprocess" not in done.stderr
    assert "socket" not in done.stderr
