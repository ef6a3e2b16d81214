"""Members of one session in several namespaces.

`test_other_namespaces.py` runs it. Arguments: FUNCTION and its arguments.
"""

import pickle
import sys
from multiprocessing.reduction import ForkingPickler

import shmtensor as st
import shmtensor.multiprocessing as mp
from tests.helpers.children import kill_manager_of, manager_pids, wait_until
from tests.helpers.peers import Peer


def start(function, *namespace):
    return Peer([*namespace, sys.executable, __file__, function])


def dump(tensor):
    return bytes(ForkingPickler.dumps(tensor)).hex()


def load(text):
    return pickle.loads(bytes.fromhex(text))


def child_in_pid_namespace():
    held = load(input())
    print(held[0].item(), flush=True)
    input()
    st.zeros(3)  # starts the next manager, in this namespace
    print(st.stats()["processes"], flush=True)
    input()
    print(held.numpy().sum(), flush=True)
    sys.stdin.readline()


def pid_namespaces(strategy, *namespace):
    mp.set_sharing_strategy(strategy)
    mine, lent = st.full(1024, 7), st.full(1024, 5)
    session = st.stats()["session"]
    child = start("child_in_pid_namespace", *namespace)
    assert child.ask(dump(lent)) == "5"
    del lent  # which only the child holds from now on
    kill_manager_of(session)
    assert child.ask() == "2"
    assert (mine.numpy() == 7).all()
    _new = [st.full(1024, 99) for _ in range(3)]
    assert (mine.numpy() == 7).all()
    assert st.stats()["processes"] == 2
    assert child.ask() == str(5 * 1024)
    child.end()
    _again = [st.full(1024, 98) for _ in range(3)]  # by way of a third manager
    assert (mine.numpy() == 7).all()
    wait_until(lambda: st.stats()["processes"] == 1, what="the child's death to be seen")
    print(session)


def child_in_net_namespace():
    try:
        print(load(input()), flush=True)
    except st.SessionError as error:
        print(error, flush=True)
    sys.stdin.readline()


def child_in_no_namespace():
    held = load(input())
    print(held[0].item(), flush=True)
    input()
    print(held.numpy().sum(), flush=True)
    sys.stdin.readline()


def net_namespaces(strategy):
    mp.set_sharing_strategy(strategy)
    mine = st.full(1024, 7)
    session = st.stats()["session"]
    refusal = "the session is in another network namespace"
    outer = start("child_in_net_namespace", "unshare", "--net")
    assert refusal in outer.ask(dump(mine))
    inner = start("child_in_no_namespace")
    assert inner.ask(dump(mine)) == "7"
    del mine
    outer.end()
    new = [st.full(1024, 99) for _ in range(3)]
    assert inner.ask() == str(7 * 1024)
    wait_until(lambda: len(manager_pids(session)) == 1, what="the other manager to end")
    kill_manager_of(session)
    outer = start("child_in_net_namespace", "unshare", "--net")
    assert refusal in outer.ask(dump(new[0]))
    outer.end()
    assert st.stats()["processes"] == 2
    inner.end()
    print(session)


globals()[sys.argv[1]](*sys.argv[2:])
