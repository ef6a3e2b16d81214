"""Actors and a driver keep tensors and references to them, and delete them. Argument: "on"."""

import contextlib
import os
import signal
import time

import ray
import torch

import shmtensor as st
from tests.helpers.empty_sessions import wait_for_no_blocks
from tests.helpers.ray_programs import connected, place, transport

st.install("ray")


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Actor:
    @ray.method(**transport())
    def make(self):
        return torch.ones(100_000)

    def fork(self):
        if (pid := os.fork()) == 0:
            time.sleep(60)
            os._exit(0)
        return pid

    def put(self):
        return [ray.put(torch.ones(100_000), _tensor_transport="SHMTENSOR")]

    def keep(self, tensor):
        self.kept = tensor
        return float(tensor.sum())

    def get(self, references):
        return [float(ray.get(reference).sum()) for reference in references]

    def add_to_kept(self):
        self.kept += 1
        return float(self.kept.sum())

    def drop(self):
        del self.kept


@ray.remote(num_cpus=0)
def get(references):
    return [float(ray.get(reference).sum()) for reference in references]


if __name__ == "__main__":
    with connected():
        first, second = Actor.remote(), Actor.remote()
        made = first.make.remote()
        child = ray.get(first.fork.remote())
        assert ray.get(second.keep.remote(made)) == 100_000
        del made
        assert ray.get(second.add_to_kept.remote()) == 200_000
        assert st.stats()["blocks"] == 1, st.stats()
        ray.get(second.drop.remote())
        wait_for_no_blocks()
        os.kill(child, signal.SIGKILL)

        made = first.make.remote()
        here = ray.get(made)
        del made
        assert st.stats()["blocks"] == 1, st.stats()
        assert here.add_(1).sum() == 200_000
        del here
        wait_for_no_blocks()

        put = ray.put(torch.ones(100_000), _tensor_transport="SHMTENSOR")
        assert ray.get(second.keep.remote(put)) == 100_000
        assert ray.get(put).sum() == 100_000
        del put
        ray.get(second.drop.remote())
        wait_for_no_blocks()

        made = [first.make.remote(), ray.put(torch.ones(100_000), _tensor_transport="SHMTENSOR")]
        ray.wait(made, num_returns=2)
        assert ray.get(get.remote(made)) == ray.get(second.get.remote(made)) == [100_000, 100_000]
        del made
        wait_for_no_blocks()
        made = ray.get(first.put.remote())
        assert ray.get(made[0]).sum() == ray.get(second.keep.remote(made[0])) == 100_000
        assert ray.get(first.get.remote(made)) == [100_000]
        del made
        ray.get(second.drop.remote())
        wait_for_no_blocks()

        made = first.make.remote()
        ray.get(second.keep.remote(made))
        st.uninstall("ray")
        with contextlib.suppress(ValueError):
            ray.method(**transport())(place)
            raise AssertionError("the transport is registered")
        assert ray.get(second.keep.remote(made)) == 100_000
        del made
        ray.get(second.drop.remote())
        wait_for_no_blocks()
