"""An engine and its ranks, as vLLM connects them: one message queue to all ranks, one back from each."""

from __future__ import annotations

import multiprocessing
from typing import Any

import numpy as np

SECONDS = 60


def adaptor() -> Any:
    from examples.vllm_message_queue import MessageQueue

    return MessageQueue


def vllm() -> Any:
    from bench.peers.vllm_queue import message_queue

    return message_queue()


def _rank(queue_class, connection, rank: int) -> None:
    kind = queue_class()
    steps = kind.create_from_handle(connection.recv(), rank)
    answers = kind(1, 1)
    connection.send(answers.export_handle())
    steps.wait_until_ready()
    answers.wait_until_ready()
    while (message := steps.dequeue(timeout=SECONDS)) is not None:
        number, array, tensor = message
        total = float(np.asarray(array).sum())
        answers.enqueue((rank, number, total, None if tensor is None else tensor.double().sum().item()))
    connection.recv()  # the engine has all answers


def answers_of_ranks(queue_class, count: int, messages: list[Any]) -> list[Any]:
    """Send messages to ranks and return their answers, in order of the messages, then of the ranks."""
    context = multiprocessing.get_context("spawn")
    kind = queue_class()
    steps = kind(count, count, max_chunks=4)
    pipes = [context.Pipe() for _ in range(count)]
    ranks = [
        context.Process(target=_rank, args=(queue_class, theirs, rank), daemon=True)
        for rank, (_, theirs) in enumerate(pipes)
    ]
    for process in ranks:
        process.start()
    connections = [ours for ours, _ in pipes]
    for connection in connections:
        connection.send(steps.export_handle())
    answers = []
    for connection in connections:
        assert connection.poll(SECONDS)
        answers.append(kind.create_from_handle(connection.recv(), 0))
    for queue in (steps, *answers):
        queue.wait_until_ready()
    found = []
    for message in messages:
        steps.enqueue(message, timeout=SECONDS)
        found += [queue.dequeue(timeout=SECONDS) for queue in answers]
    steps.enqueue(None, timeout=SECONDS)
    for connection in connections:
        connection.send("end")
    for process in ranks:
        process.join(SECONDS)
        assert process.exitcode == 0
        process.close()
    for pipe in pipes:
        for connection in pipe:
            connection.close()
    return found
