"""Children of a program with an event loop and a signal handler are terminated."""

import asyncio
import signal
import time

import multiprocess

import shmtensor as st


async def main():
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, print, "the loop receives the child's signal")
    process = multiprocess.get_context("fork").Process(target=time.sleep, args=(1000,))
    process.start()
    process.terminate()
    process.join(60)
    print(process.exitcode)
    pool = multiprocess.get_context("fork").Pool(2)
    pool.map_async(time.sleep, [1000, 1000])
    pool.terminate()
    pool.join()
    await asyncio.sleep(0)
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
    print(loop.remove_signal_handler(signal.SIGTERM))


if __name__ == "__main__":
    st.install("multiprocess")
    asyncio.run(main())
