"""Weights in buckets, to an engine and to one that begins within a generation."""

import threading

import shmtensor as st
from examples import weight_buckets as recipe

recipe.BUCKET = 1 << 20
model, weights = recipe.make_model(), st.Broadcast(recipe.UNREAD)
received, threads, bytes_live = [], [], []


def serve(reader):
    own, mine = recipe.make_model(), []
    received.append(mine)
    try:
        while True:
            mine.append((recipe.receive(reader, own.state_dict()), recipe.checksum(own)))
    except st.ShutDown:
        pass


def start_engine():
    threads.append(threading.Thread(target=serve, args=(weights.reader(),)))
    threads[-1].start()


class Trainers:
    def put(self, bucket):
        weights.put(bucket)
        bytes_live.append(st.stats()["bytes_live"])
        if len(bytes_live) == 3:  # within the first generation
            start_engine()


start_engine()
sent = []
for generation in (1, 2):
    for parameter in model.parameters():
        parameter.data.normal_()
    sent.append((generation, recipe.checksum(model)))
    recipe.send(generation, model.state_dict(), Trainers())
weights.shutdown()
for thread in threads:
    thread.join()
assert received == [sent, sent[1:]], (received, sent)
unread, in_engines = recipe.UNREAD, 2
assert max(bytes_live) < (unread + in_engines + 1.5) * recipe.BUCKET, bytes_live
