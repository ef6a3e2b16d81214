"""Actors are killed during transfers. Arguments: the name of a function, "on"."""

import gc
import os
import random
import signal
import sys
import time

import ray
import torch

import shmtensor as st
from tests.helpers.children import wait_until
from tests.helpers.empty_sessions import wait_for_no_blocks
from tests.helpers.ray_programs import connected, transport

st.install("ray")
COUNT = 100_000


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Actor:
    @ray.method(**transport())
    def make(self):
        return torch.ones(COUNT)

    def sum(self, *tensors):
        return [float(tensor.sum()) for tensor in tensors]

    def pid(self):
        return os.getpid()

    def received(self):
        """Return the objects that Ray keeps for calls which it has failed for another argument."""
        gc.collect()  # the error refers to the call's frames
        kept = ray._private.worker.global_worker.rdt_manager.rdt_store._rdt_store
        return [name for name, values in kept.items() if not all(value.error for value in values)]

    def kill_at(self, place, pid):
        """Kill a process when this one has lent an object, is about to borrow one, or has done so."""
        from shmtensor.integrations._ray.transport import _borrowing

        dumps, loads = _borrowing.dumps, _borrowing.loads

        def kill():
            _borrowing.dumps, _borrowing.loads = dumps, loads
            os.kill(pid, signal.SIGKILL)

        def lend(parts):
            content = dumps(parts)
            if place == "lent":
                kill()
            return content

        def borrow(content):
            if place == "to be borrowed":
                kill()
                wait_for_no_blocks()  # of a sender
            parts = loads(content)
            if place == "borrowed":
                kill()
            return parts

        _borrowing.dumps, _borrowing.loads = lend, borrow


def only_received_left(actors):
    received = ray.get([actor.received.remote() for actor in actors])
    return st.stats()["blocks"] == len(set().union(*received))


def get(call):
    """Return the result; None if the call fails because an actor has died."""
    try:
        return ray.get(call, timeout=60)
    except ray.exceptions.GetTimeoutError:
        raise
    except ray.exceptions.RayError:
        return None


def kill_senders():
    with connected():
        receiver = Actor.remote()
        for place, expected in (("lent", None), ("to be borrowed", None), ("borrowed", [COUNT])):
            sender = Actor.remote()
            pid = ray.get(sender.pid.remote())
            at = sender if place == "lent" else receiver
            ray.get(at.kill_at.remote(place, pid))
            made = sender.make.remote()
            assert get(receiver.sum.remote(made)) == expected, place
            assert get(sender.pid.remote()) is None
            del made
            wait_for_no_blocks()


def kill_receivers():
    with connected():
        sender, other = Actor.remote(), Actor.remote()
        made = sender.make.remote()
        for place in ("to be borrowed", "borrowed"):
            receiver = Actor.remote()
            pid = ray.get(receiver.pid.remote())
            ray.get(receiver.kill_at.remote(place, pid))
            assert get(receiver.sum.remote(made)) is None
            assert get(other.sum.remote(made)) == [COUNT]
            assert st.stats()["blocks"] == 1
        del made


def kill_at_random():
    with connected():
        choose = random.Random(4)
        actors = [Actor.remote() for _ in range(3)]
        pids = ray.get([actor.pid.remote() for actor in actors])
        for _ in range(3):
            made = [choose.choice(actors).make.remote() for _ in range(12)]
            added = [choose.choice(actors).sum.remote(*choose.sample(made, 2)) for _ in range(24)]
            time.sleep(choose.random() * 0.2)
            victim = choose.randrange(3)
            os.kill(pids[victim], signal.SIGKILL)
            for call in added:
                assert get(call) in ([COUNT, COUNT], None)
            actors[victim] = Actor.remote()
            pids[victim] = ray.get(actors[victim].pid.remote())
            made = actors[victim].make.remote()
            assert [get(actor.sum.remote(made)) for actor in actors] == [[COUNT]] * 3
            del made, added, call
            wait_until(lambda: only_received_left(actors), 60, lambda: str(st.stats()))
        for actor in actors:
            ray.kill(actor)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
