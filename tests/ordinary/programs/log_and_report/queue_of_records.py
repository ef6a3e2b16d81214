"""The logging cookbook: workers log into a queue, a listener of the program handles the records."""
# methods: fork server

import logging
import logging.handlers
import multiprocessing as mp
import sys


def configure(queue):
    root = logging.getLogger()
    root.handlers[:] = [logging.handlers.QueueHandler(queue)]
    root.setLevel(logging.INFO)


def work(queue, number):
    configure(queue)
    logger = logging.getLogger(f"worker.{number}")
    logger.debug("not sent")
    logger.info("message %d of %s", number, {"a": [1]})
    try:
        1 / (number - 1)
    except ZeroDivisionError:
        logger.exception("failed")
    logger.warning("with extra", extra={"shift": number})


class Collect(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        text = record.getMessage().splitlines()
        self.lines.append(
            (
                record.name,
                record.levelname,
                text[0],
                text[-1],
                record.processName.split("-")[0],
                vars(record).get("shift"),
            )
        )


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    queue, handler = mp.Queue(-1), Collect()
    listener = logging.handlers.QueueListener(queue, handler, respect_handler_level=True)
    listener.start()
    processes = [mp.Process(target=work, args=(queue, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    listener.stop()
    print(*sorted(handler.lines, key=str), sep="\n")
