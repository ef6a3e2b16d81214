"""Workers report to a JoinableQueue that they have done their tasks; the program waits for all of them."""
# methods: fork server

import multiprocessing as mp
import sys


class Consumer(mp.Process):
    def __init__(self, tasks, results):
        mp.Process.__init__(self)
        self.tasks, self.results = tasks, results

    def run(self):
        while True:
            task = self.tasks.get()
            if task is None:
                self.tasks.task_done()
                break
            self.results.put(task())
            self.tasks.task_done()


class Task:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def __call__(self):
        return f"{self.a} * {self.b} = {self.a * self.b}"

    def __str__(self):
        return f"{self.a} * {self.b}"


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    tasks, results = mp.JoinableQueue(), mp.Queue()
    consumers = [Consumer(tasks, results) for _ in range(2)]
    for consumer in consumers:
        consumer.start()
    for number in range(10):
        tasks.put(Task(number, number))
    for _ in consumers:
        tasks.put(None)
    tasks.join()
    for answer in sorted(results.get() for _ in range(10)):
        print("Result:", answer)
    for consumer in consumers:
        consumer.join()
    try:
        tasks.task_done()
    except ValueError as error:
        print(error)
    tasks.join()
