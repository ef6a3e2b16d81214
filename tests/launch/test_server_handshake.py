"""A start by the worker server succeeds completely or not at all; every reader gets its exit code."""

from __future__ import annotations

from tests.helpers.children import run_program, wait_until, write_program
from tests.launch.test_parent_death import group

START = """
    import errno, os, resource, signal, socket, sys, threading, time
    import shmtensor.multiprocessing as mp
    from shmtensor.multiprocessing._worker_server.client import client
    context = mp.get_context("server")
    def report_pid(path):
        with open(path, "a") as file:
            file.write(f"{os.getpid()}\\n")
    def see_pids(path, count=3):
        "Start workers after a failure; each Process is the one that runs."
        for _ in range(count):
            process = context.Process(target=report_pid, args=(path,))
            process.start()
            process.join()
            assert process.exitcode == 0, process.exitcode
            with open(path) as file:
                assert int(file.read().split()[-1]) == process.pid
    path = sys.argv[1]
"""


def run(tmp_path, program: str) -> list[str]:
    """Run a program, wait until all its processes have ended, and return the pids of the workers that ran."""
    path = tmp_path / "ran"
    path.touch()
    text = f"{START}\n{program}\n    print(os.getpid())\n"
    done = run_program(write_program(tmp_path, text), str(path))
    assert done.returncode == 0, done.stderr
    wait_until(lambda: not group(int(done.stdout.splitlines()[-1])), what="the end of all")
    return path.read_text().split()


def test_interrupt_while_the_server_starts(tmp_path) -> None:
    """Regression: a late "ready" was mistaken for the reply to the next request."""
    (tmp_path / "interrupting.py").write_text(
        "import os, signal\n"
        "if not os.path.exists('interrupted'):\n"
        "    open('interrupted', 'w').close()\n"
        "    os.kill(os.getppid(), signal.SIGINT)\n"
    )
    ran = run(
        tmp_path,
        """
    os.chdir(os.path.dirname(path))
    mp.set_server_preload(["interrupting"])
    try:
        context.Process(target=report_pid, args=(path,)).start()
        time.sleep(60)
    except KeyboardInterrupt:
        see_pids(path)
        """,
    )
    assert len(ran) == 3


def test_interrupt_while_a_worker_is_requested(tmp_path) -> None:
    """Regression: the unread reply gave each later Process the worker of the one before."""
    ran = run(
        tmp_path,
        """
    see_pids(path, 1)
    receive = socket.recv_fds
    def interrupted(*args):
        socket.recv_fds = receive
        raise KeyboardInterrupt
    socket.recv_fds = interrupted
    try:
        context.Process(target=report_pid, args=(path,)).start()
    except KeyboardInterrupt:
        see_pids(path)
        """,
    )
    assert len(ran) == 4, "the worker without an owner has not run"


def test_server_killed_before_it_replies(tmp_path) -> None:
    """Regression: the worker had started, and the client repeated the request: the target ran twice."""
    (tmp_path / "dying.py").write_text(
        "import os, signal\n"
        "def die():\n"
        "    die.forks += 1\n"
        "    if die.forks == 2:\n"  # the first is the server's own
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "die.forks = 0\n"
        "os.register_at_fork(after_in_parent=die)\n"
    )
    ran = run(
        tmp_path,
        """
    mp.set_server_preload(["dying"])
    process = context.Process(target=report_pid, args=(path,))
    try:
        process.start()
    except ChildProcessError as error:
        assert "ended while it started a worker" in str(error), error
    assert process.pid is None
    mp.set_server_preload([])
    see_pids(path)
        """,
    )
    assert len(ran) == 3


def test_client_without_free_descriptors(tmp_path) -> None:
    """Regression: pipes stayed open, and a worker without a pidfd ran without an owner."""
    ran = run(
        tmp_path,
        """
    see_pids(path, 1)
    def is_open():
        return len(os.listdir("/proc/self/fd"))
    limit = is_open() + 30
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    before, failed = is_open(), 0
    for free in range(10):
        filling = [os.open("/dev/null", os.O_RDONLY) for _ in range(limit - before + 1 - free)]
        process = context.Process(target=report_pid, args=(path,))
        try:
            process.start()
        except OSError as error:
            assert error.errno == errno.EMFILE, error
            failed += 1
        else:
            process.join()
        for fd in filling:
            os.close(fd)
        del process
        assert is_open() == before, (free, is_open(), before)
    assert 4 < failed < 10, failed
    see_pids(path, failed)
        """,
    )
    assert len(ran) == 11


def test_server_without_free_descriptors(tmp_path) -> None:
    """Regression: the server ended with a traceback."""
    ran = run(
        tmp_path,
        """
    see_pids(path, 1)
    server = client._server.pid
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    has, failed = len(os.listdir(f"/proc/{server}/fd")), 0
    for more in range(11):
        soft, _ = resource.prlimit(server, resource.RLIMIT_NOFILE, (has + more, hard))
        try:
            see_pids(path, 1)
        except OSError as error:
            assert error.errno == errno.EMFILE and "ulimit" in str(error), error
            failed += 1
        resource.prlimit(server, resource.RLIMIT_NOFILE, (soft, hard))
    assert 4 < failed < 11, failed
    see_pids(path, failed)
    assert client._server.pid == server
        """,
    )
    assert len(ran) == 12


def test_exit_code_is_read_by_several_threads(tmp_path) -> None:
    """Regression: only one thread could read it; the others reported 255."""
    run(
        tmp_path,
        """
    sys.setswitchinterval(1e-6)
    def read_code(process):
        while process.exitcode is None:
            pass
    codes = []
    for _ in range(20):
        process = context.Process(target=sys.exit, args=(3,))
        process.start()
        threads = [threading.Thread(target=read_code, args=(process,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        process.join()
        for thread in threads:
            thread.join()
        codes.append(process.exitcode)
    assert codes == [3] * 20, codes
        """,
    )


def test_exit_code_is_read_by_a_forked_child(tmp_path) -> None:
    """Regression: the child consumed the code when it started a process."""
    run(
        tmp_path,
        """
    process = context.Process(target=sys.exit, args=(3,))
    process.start()
    child = os.fork()
    if child == 0:
        mp.connection.wait([process.sentinel], 60)
        see_pids(path, 1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    process.join()
    assert process.exitcode == 3, process.exitcode
        """,
    )


def test_server_with_sigchld_ignored(tmp_path) -> None:
    """Regression: the server inherited an ignored SIGCHLD from a launcher, and could not start."""
    ran = run(
        tmp_path,
        """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    see_pids(path, 2)
        """,
    )
    assert len(ran) == 2
    (tmp_path / "ignoring.py").write_text("import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\n")
    run(
        tmp_path,
        """
    mp.set_server_preload(["ignoring"])
    for _ in range(2):
        process = context.Process(target=report_pid, args=(path,))
        process.start()
        process.join()
        assert process.exitcode == 255, "the exit code is unknown"
        """,
    )


def test_signal_handler_starts_a_worker_during_a_request(tmp_path) -> None:
    """Regression: the handler waited for the lock that its own thread held."""
    ran = run(
        tmp_path,
        """
    see_pids(path, 1)
    receive = socket.recv_fds
    def handle(*args):
        see_pids(path, 1)
    def interrupted(*args):
        socket.recv_fds = receive
        signal.raise_signal(signal.SIGUSR1)
        return receive(*args)
    signal.signal(signal.SIGUSR1, handle)
    socket.recv_fds = interrupted
    see_pids(path)
        """,
    )
    assert len(ran) == 5


def test_interrupt_before_the_server_ignores_it(tmp_path) -> None:
    """Regression: Ctrl-C ended a server whose interpreter was still starting."""
    (tmp_path / "sitecustomize.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    ran = run(
        tmp_path,
        """
    os.environ["PYTHONPATH"] = os.path.dirname(path)
    see_pids(path)
        """,
    )
    assert len(ran) == 3


def test_fork_while_the_server_starts(tmp_path) -> None:
    """Regression: the child kept the server's end of the connection, and hid that the server was killed."""
    ran = run(
        tmp_path,
        """
    import subprocess
    from shmtensor import _fork
    _fork._FORK_TIMEOUT = 60  # the fork waits for the lock, however slow the machine is
    popen, forked, stop = subprocess.Popen, [], os.pipe()
    def fork():
        child = os.fork()
        if child == 0:
            os.close(stop[1])
            os.read(stop[0], 1)
            os._exit(0)
        forked.append(child)
    def popen_and_fork(*args, **settings):
        subprocess.Popen = popen
        server = popen(*args, **settings)
        threading.Thread(target=fork).start()
        time.sleep(0.3)
        return server
    subprocess.Popen = popen_and_fork
    see_pids(path, 1)
    while not forked:
        time.sleep(0.01)
    os.kill(client._server.pid, signal.SIGKILL)
    see_pids(path)
    os.close(stop[1])
    os.waitpid(forked[0], 0)
        """,
    )
    assert len(ran) == 4


def test_process_with_other_rights_gets_its_own_server(tmp_path) -> None:
    """Regression: workers had the user ids that the program had given up."""
    run(
        tmp_path,
        """
    see_pids(path, 2)
    first = client._server.pid
    ids = os.getresuid()
    os.getresuid = lambda: (*ids[:2], ids[2] + 1)
    see_pids(path, 2)
    assert client._server.pid != first
        """,
    )
