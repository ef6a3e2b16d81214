"""A sender that ends or is killed; `test_sender_death.py` runs it."""

import os
import signal
import sys
import time

import shmtensor.multiprocessing as mp


def produce(queue, how):
    import shmtensor as st

    queue.put(st.full(100_000, 2.0))
    if how == "killed":
        queue.close()
        queue.join_thread()
        os.kill(os.getpid(), signal.SIGKILL)


def consume(queue, answers):
    tensor = queue.get()
    tensor += 1
    answers.put(float(tensor.numpy().sum()))


if __name__ == "__main__":
    method, how, consumer = sys.argv[1:]
    context = mp.get_context(method)
    queue, answers = context.Queue(), context.SimpleQueue()
    producer = context.Process(target=produce, args=(queue, how))
    producer.start()
    producer.join()
    time.sleep(5)
    if consumer == "parent":
        consume(queue, answers)
    else:
        process = context.Process(target=consume, args=(queue, answers))
        process.start()
        process.join()
    print(answers.get())
