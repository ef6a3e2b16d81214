"""Classes derived from Process: own `run`, state, a pipe of their own, a property, class attributes."""
# methods: fork server

import multiprocessing as mp
import sys
import traceback


class Worker(mp.Process):
    count = 0

    def __init__(self, number, results, **options):
        super().__init__(name=f"worker-{number}", daemon=options.pop("daemon", None))
        self.number, self.results, self.options = number, results, options
        self.history = []

    def run(self):
        self.history.append("in the child")
        Worker.count += 1
        self.results.put((self.name, self.number, self.options, self.history, Worker.count, self.exitcode))


class ReportingProcess(mp.Process):
    """The recipe that brings the exception of a child to its parent."""

    def __init__(self, *args, **kwargs):
        mp.Process.__init__(self, *args, **kwargs)
        self._parent_conn, self._child_conn = mp.Pipe()
        self._exception = None

    def run(self):
        try:
            mp.Process.run(self)
            self._child_conn.send(None)
        except Exception as error:
            self._child_conn.send((error, traceback.format_exc()))

    @property
    def exception(self):
        if self._parent_conn.poll():
            self._exception = self._parent_conn.recv()
        return self._exception


def divide(a, b):
    return a / b


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    results = mp.Queue()
    workers = [Worker(number, results, color="red") for number in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    print(*sorted(results.get() for _ in workers), sep="\n")
    print(Worker.count, [worker.history for worker in workers], [worker.exitcode for worker in workers])
    for arguments in ((1, 2), (1, 0)):
        process = ReportingProcess(target=divide, args=arguments)
        process.start()
        process.join()
        error, text = process.exception or (None, "")
        print(process.exitcode, repr(error), text.splitlines()[-1:])
