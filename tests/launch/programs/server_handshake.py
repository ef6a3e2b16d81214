"""Starts by the worker server that fail, or are interrupted.

`test_server_handshake.py` runs it. Arguments: FILE FUNCTION; the pids of workers are written to FILE.
"""

import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time

import shmtensor.multiprocessing as mp
from shmtensor import _fork
from shmtensor.multiprocessing._worker_server.client import client
from tests.helpers.threads import run_together

context = mp.get_context("server")


def report_pid(path):
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")


def see_pids(path, count=3):
    """Start workers after a failure; each Process is the one that runs."""
    for _ in range(count):
        process = context.Process(target=report_pid, args=(path,))
        process.start()
        process.join()
        assert process.exitcode == 0, process.exitcode
        with open(path) as file:
            assert int(file.read().split()[-1]) == process.pid


path = sys.argv[1]
sys.path[0] = os.path.dirname(path)  # where the test has modules


def interrupt_while_the_server_starts():
    os.chdir(os.path.dirname(path))
    mp.set_server_preload(["interrupting"])
    try:
        context.Process(target=report_pid, args=(path,)).start()
        time.sleep(60)
    except KeyboardInterrupt:
        see_pids(path)


def interrupt_while_a_worker_is_requested():
    """Regression: the unread reply gave each later Process the worker of the one before."""
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


def server_killed_before_it_replies():
    mp.set_server_preload(["dying"])
    process = context.Process(target=report_pid, args=(path,))
    try:
        process.start()
    except ChildProcessError as error:
        assert "ended while it started a worker" in str(error), error
    assert process.pid is None
    mp.set_server_preload([])
    see_pids(path)


def client_without_free_descriptors():
    """Regression: pipes stayed open, and a worker without a pidfd ran without an owner."""
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


def server_without_free_descriptors():
    """Regression: the server ended with a traceback."""
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


def exit_code_is_read_by_several_threads():
    """Regression: only one thread could read it; the others reported 255."""

    def read_code():
        while process.exitcode is None:
            pass

    codes = []
    for _ in range(20):
        process = context.Process(target=sys.exit, args=(3,))
        process.start()
        run_together(read_code, read_code, process.join)
        codes.append(process.exitcode)
    assert codes == [3] * 20, codes


def exit_code_is_read_by_a_forked_child():
    """Regression: the child consumed the code when it started a process."""
    process = context.Process(target=sys.exit, args=(3,))
    process.start()
    if (child := os.fork()) == 0:
        mp.connection.wait([process.sentinel], 60)
        see_pids(path, 1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    process.join()
    assert process.exitcode == 3, process.exitcode


def server_with_sigchld_ignored():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    see_pids(path, 2)


def server_that_ignores_sigchld():
    mp.set_server_preload(["ignoring"])
    for _ in range(2):
        process = context.Process(target=report_pid, args=(path,))
        process.start()
        process.join()
        assert process.exitcode == 255, "the exit code is unknown"


def signal_handler_starts_a_worker_during_a_request():
    """Regression: the handler waited for the lock that its own thread held."""
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


def interrupt_before_the_server_ignores_it():
    os.environ["PYTHONPATH"] = os.path.dirname(path)
    see_pids(path)


def fork_while_the_server_starts():
    """Regression: the child kept the server's end of the connection, and hid that the server was killed."""
    _fork._FORK_TIMEOUT = 60  # the fork waits for the lock, however slow the machine is
    popen, forked, stop = subprocess.Popen, [], os.pipe()

    def fork():
        if (child := os.fork()) == 0:
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


def process_with_other_rights_gets_its_own_server():
    """Regression: workers had the user ids that the program had given up."""
    see_pids(path, 2)
    first = client._server.pid
    ids = os.getresuid()
    os.getresuid = lambda: (*ids[:2], ids[2] + 1)
    see_pids(path, 2)
    assert client._server.pid != first


globals()[sys.argv[2]]()
print(os.getpid())
