"""Actors of one session, of another one, and of one that is full. Arguments: the name of a function, "on"."""

import sys
import tempfile

import ray
import torch

import shmtensor as st
from tests.helpers.empty_sessions import wait_for_no_blocks
from tests.helpers.ray_programs import connected, place, transport

st.install("ray")


def session():
    st.empty(1)
    return st.stats()["session"]


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Actor:
    @ray.method(**transport())
    def make(self):
        return torch.ones(100_000)

    def session(self):
        return session()

    def receive(self, tensor):
        return float(tensor.add_(1).sum()), place(tensor), st.stats()["session"]


def use_several():
    with connected():
        variables = [{"SHMTENSOR_MAX_BYTES": "1000"}, {"SHMTENSOR_SESSION": "other"}]
        limited, guest = (Actor.options(runtime_env={"env_vars": more}).remote() for more in variables)
        actor = Actor.remote()
        here = st.stats()["session"]
        made = actor.make.remote()
        total, found, there = ray.get(guest.receive.remote(made))
        assert (total, found) == (200_000, "view")
        assert there != here
        made = guest.make.remote()
        assert ray.get(actor.receive.remote(made)) == (200_000, "view", here)
        made = limited.make.remote()
        assert ray.get(actor.receive.remote(made)) == (200_000, "private", here)
        del made


def start_cluster():
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        ray.init(num_cpus=1, include_dashboard=False, _temp_dir=folder, _node_ip_address="127.0.0.1")
        first, second = Actor.remote(), Actor.remote()
        assert {session(), *ray.get([first.session.remote(), second.session.remote()])} == {session()}
        made = first.make.remote()
        assert ray.get(second.receive.remote(made))[1] == "view"
        del made
        wait_for_no_blocks()
        ray.shutdown()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
