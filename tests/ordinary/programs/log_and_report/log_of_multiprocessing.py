"""`get_logger` and `log_to_stderr`, and handlers of a worker's own."""
# methods: fork spawn

import logging
import multiprocessing as mp
import sys


def work(queue):
    logger = mp.get_logger()
    logger.setLevel(logging.WARNING)
    records = []
    logger.handlers = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logger.addHandler(handler)
    logger.warning("doomed %s", "soon")
    logger.info("not heard")
    queue.put((logger.name, records, logger.propagate))


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    logger = mp.log_to_stderr()
    logger.setLevel(logging.CRITICAL)
    print(logger is mp.get_logger(), [type(handler).__name__ for handler in logger.handlers])
    queue = mp.Queue()
    process = mp.Process(target=work, args=(queue,))
    process.start()
    print(queue.get())
    process.join()
