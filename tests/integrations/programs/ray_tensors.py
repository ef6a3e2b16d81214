"""Actors share tensors by a transport; tasks get copies without one. Arguments: a function, "on"."""

import contextlib
import sys

import numpy as np
import ray
import torch

import shmtensor as st
from tests.helpers.ray_programs import connected, place, transport

st.install("ray")


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Actor:
    @ray.method(**transport("SHMTENSOR_ARRAY"))
    def make(self, nbytes):
        self.tensor = st.zeros(nbytes, np.uint8)
        private = st.from_numpy(np.ones(10))
        return {"tensor": self.tensor, "fixed": self.tensor[1:].as_readonly(), "private": private}

    @ray.method(**transport())
    def make_of_torch(self):
        self.torch = torch.from_dlpack(st.zeros((100, 1000)))
        return self.torch[:, 10:20]

    def write(self, found, value):
        found["tensor"][1] = value
        with contextlib.suppress(ValueError):
            found["fixed"][0] = 9
        return [(t.is_shared(), t.readonly, t.shape, t.numpy().max()) for t in found.values()]

    def write_of_torch(self, found):
        found += 1
        return place(found), float(found.sum())

    def read(self):
        return self.tensor[1].item(), float(self.torch.sum())


def share():
    with connected():
        first, second, third = (Actor.remote() for _ in range(3))
        for nbytes in (100, 3_000_000):
            made = first.make.remote(nbytes)
            for value, actor in ((3, second), (4, third)):
                tensor, fixed, private = ray.get(actor.write.remote(made, value))
                assert tensor == (True, False, (nbytes,), value)
                assert fixed == (True, True, (nbytes - 1,), value)
                assert private == (True, False, (10,), 1)
            assert ray.get(made)["fixed"][0].item() == 4
            del made
        made = first.make_of_torch.remote()
        for actor, times in ((second, 1), (third, 2)):
            assert ray.get(actor.write_of_torch.remote(made)) == ("shared", 1000 * times)
        assert ray.get(first.read.remote()) == (4, 2000)
        del made
        ray.kill(first)  # it has a tensor of its own


@ray.remote(num_cpus=0)
def write(tensor):
    found = tensor.is_shared(), tensor.readonly, tensor.shape, str(tensor.dtype)
    if not tensor.readonly:
        tensor[0] = 7
    return found, [tensor]


def copy():
    with connected(runtime_env={"worker_process_setup_hook": "shmtensor.install"}):
        for count in (5, 1_000_000):
            tensor = st.ones((2, count), "f4")
            for sent in (tensor, tensor.as_readonly()):
                for argument in (sent, ray.put(sent)):
                    found, (back,) = ray.get(write.remote(argument))
                    assert found == (False, sent.readonly, (2, count), "float32"), found
                    assert type(back) is st.Tensor
                    assert back.readonly == sent.readonly
                    assert back[0, 1].item() == (1 if sent.readonly else 7)
            assert tensor.numpy().max() == 1
        del tensor, sent, argument, back


if __name__ == "__main__":
    globals()[sys.argv[1]]()
