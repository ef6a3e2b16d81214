"""Processes exchange tensors, models and gradients. Arguments: a start method, "on" or "off"."""

import json
import sys

import torch
import torch.multiprocessing


def add(tensor):
    tensor += 1
    return tensor


def take(inbox, outbox):
    # This module does not import shmtensor: what it sends is a handle since its parent installed it.
    from multiprocessing.reduction import ForkingPickler

    made = torch.zeros(100_000)
    outbox.put((add(inbox.get()), made, len(ForkingPickler.dumps(made))))
    inbox.get()  # torch's sender must live until its tensor is received


def train(model, times):
    for _ in range(times):
        model.zero_grad()
        model(torch.ones(1, 2)).sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= parameter.grad


def spawned(index, model, tensor):
    tensor[index] = index + 1
    with torch.no_grad():
        model.bias[index] = index


def check(context):
    seen = []
    tensor = torch.zeros(1000).share_memory_()
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=take, args=(inbox, outbox))
    process.start()
    inbox.put(tensor)
    mine, made, size = outbox.get(timeout=60)
    seen += [mine.sum().item(), tensor.sum().item(), made.sum().item()]
    inbox.put(None)
    process.join(60)
    assert process.exitcode == 0
    with context.Pool(1) as pool:
        seen += [pool.apply(add, (tensor,)).sum().item(), tensor.sum().item()]
    model = torch.nn.Linear(2, 2).share_memory()
    before = model.weight.clone()
    process = context.Process(target=train, args=(model, 2))
    process.start()
    process.join(60)
    seen.append((before - model.weight).round().tolist())
    argument = torch.zeros(1000)
    process = context.Process(target=add, args=(argument,))
    process.start()
    process.join(60)
    seen.append(argument.sum().item())
    return seen, size


if __name__ == "__main__":
    method, on = sys.argv[1], sys.argv[2] == "on"
    torch.set_num_threads(1)
    if on:
        import shmtensor as st

        st.install("torch")
    context = torch.multiprocessing.get_context(method)
    seen, size = check(context)
    assert not on or size < 1000
    if method != "server":
        model, tensor = torch.nn.Linear(2, 2).share_memory(), torch.zeros(2).share_memory_()
        torch.multiprocessing.start_processes(spawned, (model, tensor), nprocs=2, start_method=method)
        seen.append([model.bias.tolist(), tensor.tolist()])
    print(json.dumps(seen))
