"""An asyncio program that ends by SIGTERM terminates its forked workers, which must not end it."""
# methods: fork
# executor: raises WorkerLost, a BrokenProcessPool
# not compared: the loop of the standard library receives the children's signals, and they live on

import asyncio
import multiprocessing as mp
import signal
import sys
import time
from concurrent.futures import ProcessPoolExecutor


def work(_):
    time.sleep(1000)


async def main():
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, print, "the loop receives", number.name)

    process = mp.Process(target=work, args=(0,))
    process.start()
    process.terminate()
    process.join()
    print("process:", process.exitcode)

    pool = mp.Pool(2)
    pool.map_async(work, range(2))
    pool.terminate()
    pool.join()
    print("pool ended")

    executor = ProcessPoolExecutor(2, mp_context=mp.get_context())
    future = executor.submit(work, 0)
    while not future.running():
        await asyncio.sleep(0.01)
    for worker in list(executor._processes.values()):
        worker.terminate()
    print("executor:", type(await asyncio.to_thread(future.exception)).__name__)
    executor.shutdown()
    await asyncio.sleep(0.01)


if __name__ == "__main__":
    mp.set_start_method(sys.argv[1])
    asyncio.run(main())
    print("end")

# > process: -15
# > pool ended
# > executor: BrokenProcessPool
# > end
