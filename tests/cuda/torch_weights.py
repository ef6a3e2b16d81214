"""Programs with the weights of `examples/weight_sync.py`, whose processes are killed, and those of
`weight_buckets.py`: in host memory, and on a GPU, which the simulated driver can be: they run no kernels.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import torch

import shmtensor as st
from examples.weight_buckets import main as buckets
from examples.weight_sync import DEVICE, checksum, load, make_model, newest_generation
from examples.weight_sync import main as example
from tests.cuda import device
from tests.cuda.workers import Pair

__all__ = ["buckets", "example", "killed_engines", "killed_trainer", "killed_trainer_in_place"]

LOAD, READ = "load", "read"


def publish_each(inbox: Any, outbox: Any, alias: bool = False) -> None:
    """Publish changed weights at each message, and answer with their generation and checksum."""
    st.install("torch", cuda=True, alias=alias)
    model, newest = make_model().to(DEVICE), newest_generation()
    if newest[0] and not alias:
        outbox.put((load(model, assign=False), checksum(model)))
    while inbox.get():
        for parameter in model.parameters():
            parameter.data.copy_(torch.randn(parameter.shape))
        generation = int(newest[0]) + 1
        st.publish("weights", (generation, model.state_dict()))
        newest[0] = generation
        outbox.put((generation, checksum(model)))


def load_newest(inbox: Any, outbox: Any) -> None:
    """At each message read the weights, and before load the newest if asked to; answer as `publish_each`."""
    st.install("torch", cuda=True)
    model, newest, generation = make_model().to("meta"), newest_generation(), 0
    while message := inbox.get():
        try:
            if message == LOAD and newest[0] > generation:
                generation = load(model, assign=True)
            outbox.put((generation, checksum(model)))
        except st.ProducerGone as error:
            outbox.put(str(error))


def in_use() -> tuple[int, int]:
    """Return the number of blocks, without those of queues, and of the GPU's bytes in use."""
    stats = st.stats()
    # Other programs use a GPU simultaneously.
    return stats["blocks"] - stats["queues"], device.used_bytes() if device.simulated else 0


def ask(pair: Pair, message: str = LOAD) -> Any:
    pair.put(message)
    return pair.get()


def end(*pairs: Pair) -> None:
    """Kill the last processes, after which nothing is left."""
    for pair in pairs:
        pair.kill()
    st.unpublish("weights")
    st.unpublish("weights/newest")
    device.wait_until(lambda: in_use() == (0, 0), "the memory of killed processes")


def killed_engines() -> None:
    """Engines that start late, or again, load the newest generation; killed ones keep no memory."""
    trainer, engine, other = Pair(publish_each), Pair(load_newest), Pair(load_newest)
    published = ask(trainer)
    assert published[0] == 1
    assert ask(engine) == ask(other) == published
    of_one_generation = in_use()
    other.kill()
    newest = ask(trainer)
    assert newest[0] == 2
    assert newest[1] != published[1]
    assert in_use() > of_one_generation
    assert ask(engine, READ) == published, "it keeps the generation before"
    assert ask(engine) == newest
    device.wait_until(lambda: in_use() == of_one_generation, "what only the killed engine had")
    late, again = Pair(load_newest), Pair(load_newest)
    assert ask(late) == ask(again) == newest
    for pair in (engine, late, again):
        pair.kill()
    device.wait_until(lambda: in_use() == of_one_generation, "only the published generation")
    end(trainer)


def killed_trainer() -> None:
    """Engines go on with the last generation of a killed trainer, and the next trainer continues from it."""
    trainer, engine = Pair(publish_each), Pair(load_newest)
    published = ask(trainer)
    assert ask(engine) == published
    newest = ask(trainer)
    trainer.kill()
    assert ask(engine) == newest, "it arrives after the death of its maker"
    late = Pair(load_newest)
    assert ask(late) == newest
    of_one_generation = in_use()
    next_trainer = Pair(publish_each)
    assert next_trainer.get() == newest
    newest = ask(next_trainer)
    assert newest[0] == 3
    assert ask(engine) == ask(late) == newest
    next_trainer.kill()
    assert ask(engine) == ask(late) == newest
    device.wait_until(lambda: in_use() == of_one_generation, "only the published generation")
    end(engine, late)


def killed_trainer_in_place() -> None:
    """With `alias=True` engines go on with the GPU memory of a killed trainer; others cannot attach it."""
    in_place = functools.partial(publish_each, alias=True)
    trainer, engine, other = Pair(in_place), Pair(load_newest), Pair(load_newest)
    published = ask(trainer)
    assert ask(engine) == ask(other) == published
    of_one_generation = in_use()
    other.kill()
    newest = ask(trainer)
    assert ask(engine, READ) == (1, newest[1]), "it is the trainer's memory"
    again = Pair(load_newest)
    assert ask(engine) == ask(again) == newest
    again.kill()
    device.wait_until(lambda: in_use() == of_one_generation, "what only killed engines had")
    newest = ask(trainer)
    trainer.kill()
    assert ask(engine) == newest
    late = Pair(load_newest)
    if DEVICE == "cpu" or "expandable_segments" in os.environ.get("PYTORCH_ALLOC_CONF", ""):
        assert ask(late) == newest
    else:
        assert f"process {trainer.process.pid}" in ask(late)
    next_trainer = Pair(in_place)
    newest = ask(next_trainer)
    assert newest[0] == 4
    assert ask(engine) == ask(late) == newest
    end(engine, next_trainer, late)
