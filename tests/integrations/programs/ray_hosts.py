"""Actors, two on each of two hosts, exchange values. Argument: "on" with the integration, "off" without."""

import socket

import ray
import torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

import shmtensor as st
from tests.helpers.children import wait_until
from tests.helpers.ray_programs import ON, connected, place, transport

if ON:
    st.install("ray")
COUNT = 100_000


@ray.remote(num_cpus=0, enable_tensor_transport=True)
class Actor:
    def host(self):
        return socket.gethostname()

    @ray.method(**transport())
    def make(self, value):
        return {"x": torch.full((COUNT,), value), "y": [torch.arange(5).t()]}

    @ray.method(**transport("SHMTENSOR_ARRAY"))
    def make_shared(self, value):
        return st.full(COUNT, value).as_readonly()

    def receive(self, found):
        found["x"] += 1
        return float(found["x"].sum()), int(found["y"][0].sum()), place(found["x"])

    def receive_shared(self, found):
        return float(found.numpy().sum()), found.readonly

    def sum(self, *values):
        return float(sum(found["x"].sum() for found in values))

    def get(self, references):
        return self.sum(*ray.get(references))


if __name__ == "__main__":
    with connected():
        wait_until(lambda: len(ray.nodes()) == 2, 40)
        nodes = sorted(ray.nodes(), key=lambda node: node["NodeManagerAddress"])
        places = [
            NodeAffinitySchedulingStrategy(node["NodeID"], soft=False) for node in nodes for _ in range(2)
        ]
        actors = [Actor.options(scheduling_strategy=place).remote() for place in places]
        hosts = ray.get([actor.host.remote() for actor in actors])
        print(hosts)
        for i, sender in enumerate(actors):
            for j, receiver in enumerate(actors):
                made = sender.make.remote(float(i))
                total, small, found = ray.get(receiver.receive.remote(made))
                print(hosts[i], hosts[j], total, small)
                print(ray.get(receiver.receive_shared.remote(sender.make_shared.remote(i))))
                expected = "view" if ON and hosts[i] == hosts[j] and i != j else "private"
                assert found == expected, (i, j, found)
                del made
        here = [ray.get(actor.make.remote(2.0))["x"] for actor in actors]  # on the first host
        print([float(x.add_(1).sum()) for x in here])
        if ON:
            assert [place(x) for x in here] == ["view", "view", "private", "private"]
        del here
        for _ in range(5):  # all hosts fetch from one another simultaneously
            made = [actor.make.remote(1.0) for actor in actors]
            print(ray.get([actor.sum.remote(*made) for actor in actors]))
            print(ray.get([actor.get.remote(made) for actor in actors]))
        del made
