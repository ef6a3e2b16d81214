"""A daemon that closes its descriptors; `test_closed_descriptors.py` runs it. Argument: FUNCTION."""

import contextlib
import os
import pickle
import queue
import select
import socket
import sys
from multiprocessing.reduction import ForkingPickler

import shmtensor as st
from tests.helpers.children import fork, kill_manager_of


def close_all_but(kept):
    os.closerange(3, kept)
    os.closerange(kept + 1, 4096)
    return [os.dup(0) for _ in range(20)]  # they take the numbers of the closed ones


tensor = st.full(1000, 7)
session = st.stats()["session"]


def inherits_nothing():
    global tensor
    del tensor
    reader, writer = os.pipe()
    if (daemon := os.fork()) == 0:
        kept = os.dup2(writer, 500)
        close_all_but(kept)
        own = st.Queue()
        own.put(st.full(1000, 8))
        os.write(kept, bytes(ForkingPickler.dumps(own.get())))
        os._exit(st.stats()["session"] != session)
    os.close(writer)
    assert pickle.loads(os.read(reader, 4096)).tolist() == [8] * 1000
    print(os.waitpid(daemon, 0)[1])


def inherits_a_tensor():
    global tensor
    messages, sent = os.pipe()
    if (sender := os.fork()) == 0:
        os.write(sent, bytes(ForkingPickler.dumps(st.full(1000, 9))))
        os._exit(0)
    os.waitpid(sender, 0)
    message = os.read(messages, 4096)
    if (daemon := os.fork()) == 0:
        others = close_all_but(500)
        new = st.full(1000, 8)
        for call in (
            lambda: ForkingPickler.dumps(tensor),
            lambda: ForkingPickler.dumps(new),
            lambda: pickle.loads(message),
            lambda: st.publish("name", tensor),
        ):
            try:
                call()
            except st.SessionError as error:
                print(error, flush=True)
        usable = tensor.tolist() == [7] * 1000 and new.tolist() == [8] * 1000
        del tensor, new
        for number in others:
            os.fstat(number)
        os._exit(not usable)
    assert os.waitpid(daemon, 0)[1] == 0
    assert pickle.loads(message).tolist() == [9] * 1000, "it is unread"
    print(session)


def watcher():
    def is_readable(descriptor, seconds=30):
        return bool(select.select([descriptor], [], [], seconds)[0])

    watched, answers = st.Queue(), st.Queue()
    watched.fileno()

    def wait():
        nonlocal watched
        watched.fileno()  # its own, beside the parent's
        os.closerange(3, 4096)
        pairs = [socket.socketpair() for _ in range(10)]  # have the numbers of the closed ones
        for pair in pairs:
            for one in pair:
                one.send(b"for another library")
        with contextlib.suppress(queue.Empty):
            watched.get_nowait()
        assert not is_readable(watched.fileno(), 0)
        answers.put("waits")
        assert is_readable(watched)
        assert watched.get_nowait() == 1
        while is_readable(watched.fileno(), 0):  # if the process that has put it still has the lock
            try:
                raise AssertionError(watched.get_nowait())
            except queue.Empty:
                pass
        del watched
        for pair in pairs:
            for one in pair:
                assert one.recv(100, socket.MSG_DONTWAIT) == b"for another library"

    daemon = fork(wait)
    assert answers.get(timeout=30) == "waits"
    watched.put(1)
    print(os.waitpid(daemon, 0)[1])


def alone():
    close_all_but(500)
    kill_manager_of(session)
    for call in lambda: ForkingPickler.dumps(tensor), st.stats:
        try:
            call()
        except st.SessionError as error:
            print(error)
    assert tensor.tolist() == [7] * 1000


globals()[sys.argv[1]]()
