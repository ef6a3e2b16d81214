"""iceoryx2: a sample is borrowed from the publisher's shared memory, filled, and sent without a copy.

Its subscriber is woken by an event service, as its documentation recommends. The publisher loses a sample
that it has sent, so it cannot send it again, and each sample is a separate message.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import iceoryx2 as iox2
import numpy as np

from bench.options import Options
from bench.peers import Array, Consumer, Peer

LARGEST = 64 << 20  # bytes
TIMEOUT = 20  # seconds until an answer
IDLE = 3600  # seconds in which the other peers are measured


class Ports:
    """The two services of a run: samples in one direction, events in both."""

    def __init__(self, run: str) -> None:
        iox2.set_log_level(iox2.LogLevel.Fatal)
        self._run = run
        self._node = iox2.NodeBuilder.new().create(iox2.ServiceType.Ipc)

    def _service(self, name: str) -> Any:
        return self._node.service_builder(iox2.ServiceName.new(f"shmtensor-bench/{self._run}/{name}"))

    def samples(self) -> Any:
        return self._service("samples").publish_subscribe(iox2.Slice[ctypes.c_uint8]).open_or_create()

    def listener(self, name: str) -> Any:
        return self._service(name).event().open_or_create().listener_builder().create()

    def notifier(self, name: str) -> Any:
        return self._service(name).event().open_or_create().notifier_builder().create()


def wait(listener: Any, timeout: int = TIMEOUT) -> None:
    if not listener.timed_wait(iox2.Duration.from_secs(timeout)):
        raise TimeoutError(f"iceoryx2: no event in {timeout} s")


def _serve(run: str, options: Options) -> None:
    options.place(1)
    ports = Ports(run)
    subscriber = ports.samples().subscriber_builder().create()
    there, back = ports.listener("there"), ports.notifier("back")
    back.notify()
    while True:
        wait(there, IDLE)
        sample = subscriber.receive()
        if sample is None:  # an event without a sample ends it
            return
        sample.delete()
        back.notify()


class Subscriber:
    """The publisher's view of the subscriber."""

    def __init__(self, publisher: Any, there: Any, back: Any) -> None:
        self._publisher = publisher
        self._there = there
        self._back = back

    def fresh(self, nbytes: int) -> Any:
        return self._publisher.loan_slice_uninit(nbytes).assume_init()

    def hand_over(self, message: Any) -> object:
        if isinstance(message, bytes):
            content, message = message, self.fresh(len(message))
            ctypes.memmove(message.payload().data_ptr, content, len(content))
        message.send()
        self._there.notify()
        wait(self._back)
        return None


class Iceoryx(Peer):
    """Samples of a publisher."""

    _subscriber: Subscriber

    def fresh(self, nbytes: int) -> Any:
        return self._subscriber.fresh(nbytes)

    def copy_in(self, array: Array) -> Any:
        sample = self.fresh(array.nbytes)
        view = (ctypes.c_uint8 * array.nbytes).from_address(sample.payload().data_ptr)
        np.copyto(np.frombuffer(view, np.uint8).reshape(array.shape), array)
        return sample

    @contextmanager
    def consumer(self, options: Options, _serve: object = None) -> Iterator[Consumer]:
        run = str(os.getpid())
        ports = Ports(run)
        publisher = ports.samples().publisher_builder().initial_max_slice_len(LARGEST).create()
        there, back = ports.notifier("there"), ports.listener("back")
        process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(run, options), daemon=True
        )
        process.start()
        wait(back)
        self._subscriber = Subscriber(publisher, there, back)
        try:
            yield self._subscriber
        finally:
            there.notify()
            process.join(TIMEOUT)
            process.kill()
            process.join()


PEER = Iceoryx
