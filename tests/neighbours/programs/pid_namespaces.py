"""A member of a session whose manager is in another PID namespace.

`test_pid_namespaces.py` runs it. Arguments: member CASE COMMAND, of which COMMAND starts the owner.
"""

import contextlib
import os
import pickle
import socket
import sys
import time
from multiprocessing.reduction import ForkingPickler

import shmtensor as st
from tests.helpers.children import wait_until
from tests.helpers.peers import Peer


def answer(words):
    print(words, flush=True)
    return input()


if sys.argv[1] == "owner":
    mine = st.full(1000, 7, dtype="int64")
    order = answer(bytes(ForkingPickler.dumps(mine)).hex())
    del mine
    while order != "end":
        if order in ("processes", "blocks"):
            order = answer(st.stats()[order])
        else:  # what the member has must not be among these
            others = [st.full(1000, 666, dtype="int64") for _ in range(50)]
            order = answer("allocated")
    sys.exit()


def close_all(but):
    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in but:
            with contextlib.suppress(OSError):
                os.close(number)


def break_connection():
    # As after a timeout: the member closes its connection.
    for number in map(int, os.listdir("/proc/self/fd")):
        path = f"/proc/self/fd/{number}"
        if os.path.islink(path) and os.readlink(path).startswith("socket:"):
            with socket.socket(fileno=os.dup(number)) as connection:
                connection.shutdown(socket.SHUT_RDWR)


owner = Peer([*sys.argv[3:], sys.executable, __file__, "owner"])
held = pickle.loads(bytes.fromhex(owner.answer()))
array = held.numpy()
assert owner.ask("processes") == "2"
session, what = st.stats()["session"], sys.argv[2]


def keeps():
    global array, held
    child = 0
    if what == "forked child":
        ready, reported = os.pipe()
        if (child := os.fork()) == 0:
            close_all({reported})
            os.write(reported, b"1")
            time.sleep(60)
            os._exit(1)
        os.close(reported)
        os.read(ready, 1)
        del array, held
        expected = "3"
    elif what == "closed descriptors":
        close_all({owner.process.stdin.fileno(), owner.process.stdout.fileno()})
        expected = "2"
    else:
        break_connection()
        expected = "2"
    for _ in range(5):  # the manager looks again after some time
        assert owner.ask("processes") == expected
        time.sleep(0.3)
    assert owner.ask("allocate") == "allocated"
    if child:
        assert owner.ask("blocks") == "51", "the child's block is kept"
        os.kill(child, 9)
        os.waitpid(child, 0)
        wait_until(lambda: owner.ask("processes") == "2", what="the child's end to be seen")
        assert owner.ask("blocks") == "50"
    else:
        assert set(array.tolist()) == {7}
        assert st.ones(3).numpy().sum() == 3, "it finds its way back"
        assert owner.ask("processes") == "2"


def leaves():
    global array, held
    if (child := os.fork()) == 0:
        if what == "executes another program":
            os.execlp("sleep", "sleep", "60")
        time.sleep(60)
        os._exit(1)
    if what == "is killed":
        wait_until(lambda: owner.ask("processes") == "3", what="the child to join")
        os.kill(child, 9)
    wait_until(lambda: owner.ask("processes") == "2", what="the child's end to be seen")
    del array, held
    assert owner.ask("blocks") == "0"
    os.kill(child, 9)
    os.waitpid(child, 0)


(leaves if what in ("is killed", "executes another program") else keeps)()
owner.process.communicate("end\n", timeout=30)
print(session)
