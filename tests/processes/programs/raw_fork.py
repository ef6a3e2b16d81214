"""A process and its raw copy.

`test_raw_fork.py` runs it. Arguments: WAY FUNCTION, and STRATEGY if it has a session.
"""

import ctypes
import gc
import os
import pickle
import platform
import sys
import traceback
from multiprocessing.reduction import ForkingPickler

import shmtensor as st
import shmtensor.multiprocessing as mp
from shmtensor import _core
from tests.helpers.children import fork, wait_until

libc = ctypes.PyDLL(None)
CLONE = {"x86_64": 56, "aarch64": 220}
SIGCHLD = 17


def raw_fork():
    if way == "_Fork":
        return libc._Fork()
    return libc.syscall(CLONE[platform.machine()], SIGCHLD, 0, 0, 0, 0)


def wait(pid):
    assert (code := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) == 0, code


def refused(function, *arguments):
    try:
        function(*arguments)
    except st.SessionError as error:
        assert "created by clone or _Fork" in str(error), error
        assert "Use os.fork or subprocess" in str(error), error
    else:
        raise AssertionError(f"{function} was not refused")


def dump(tensor):
    return bytes(ForkingPickler.dumps(tensor))


def check():
    """After the bookkeeping was checked, as after each death, new tensors use the free memory."""
    assert st.stats()["blocks"] == blocks, st.stats()
    wait(fork(int))
    wait_until(lambda: st.stats()["processes"] == 1)
    kept = [st.full(1000, 666) for _ in range(20)]
    assert set(array.tolist()) == {7}, set(array.tolist())
    del kept
    print("fine")


def parent_keeps_tensors_released_in_a_raw_copy():
    global array, tensor
    view = tensor[10:20]
    if (pid := raw_fork()) == 0:
        assert set(array.tolist()) == {7}, "a raw copy may read"
        del array, tensor, view
        gc.collect()
        os._exit(0)
    wait(pid)
    check()


def raw_copy_cannot_change_the_session():
    global blocks
    message = dump(tensor)
    st.publish("name", tensor)
    first = st.SharedList([1])
    blocks = st.stats()["blocks"]
    if (pid := raw_fork()) == 0:
        try:
            refused(st.ones, 10)
            refused(st.empty, 1 << 26)
            refused(dump, tensor)
            refused(pickle.loads, message)
            refused(st.gc)
            refused(st.gc, 0)
            refused(st.stats)
            refused(st.publish, "other", tensor)
            refused(st.attach, "name")
            refused(st.unpublish, "name")
            refused(st.from_numpy(array.copy()).share_memory_)
            refused(st.SharedList, [1, 2])
            _core.ensure_managers()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    wait(pid)
    assert pickle.loads(message).storage() is tensor.storage()
    assert st.attach("name").storage() is tensor.storage()
    assert st.stats()["blocks"] == blocks
    st.unpublish("name")
    del first
    blocks = st.stats()["blocks"]
    check()


def messages_of_the_parent_remain_valid():
    message = _core.SendScope()
    with message:
        text = dump(st.full(10, 5))
    if (pid := raw_fork()) == 0:
        message.discard()
        os._exit(0)
    wait(pid)
    assert pickle.loads(text).tolist() == [5] * 10
    message.delivered()
    check()


def child_of_a_raw_copy_is_refused():
    global array, tensor
    if (pid := raw_fork()) == 0:
        try:
            if (below := os.fork()) == 0:
                refused(st.ones, 10)
                del array, tensor
                os._exit(0)
            wait(below)
            refused(st.ones, 10)
        except BaseException:
            os._exit(1)
        os._exit(0)
    wait(pid)
    check()


def interpreter_of_a_raw_copy_can_exit():
    global blocks
    reader, writer = mp.Pipe(duplex=False)
    writer.send(st.full(10, 5))
    queue = mp.SimpleQueue()
    queue.put(st.full(10, 6))
    blocks = st.stats()["blocks"]
    if raw_fork() == 0:
        sys.exit()
    wait(-1)
    check()
    assert reader.recv().tolist() == [5] * 10
    assert queue.get().tolist() == [6] * 10


def raw_copy_without_a_session():
    if (pid := raw_fork()) == 0:
        os._exit(int(st.ones(10).numpy().sum()))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 10
    print(st.ones(10).tolist() == [1] * 10)


way, function, *strategy = sys.argv[1:]
if strategy:
    mp.set_sharing_strategy(*strategy)
    tensor = st.full(1000, 7)
    array = tensor.numpy()
    blocks = st.stats()["blocks"]
globals()[function]()
