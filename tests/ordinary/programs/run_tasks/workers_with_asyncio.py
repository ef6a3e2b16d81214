"""An asyncio program runs heavy functions in processes, several at a time, and goes on when one fails."""
# methods: fork server

import asyncio
import multiprocessing as mp
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial


def heavy(number, power=1):
    if number == 3:
        raise ValueError("three")
    return number**power


async def main(context):
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(2, mp_context=context) as executor:
        print(await loop.run_in_executor(executor, heavy, 5))
        calls = [loop.run_in_executor(executor, partial(heavy, n, power=2)) for n in range(5)]
        print([repr(result) for result in await asyncio.gather(*calls, return_exceptions=True)])
        done, pending = await asyncio.wait([loop.run_in_executor(executor, heavy, n) for n in (7, 8)])
        print(sorted(future.result() for future in done), len(pending))
        total = 0
        for call in asyncio.as_completed([loop.run_in_executor(executor, heavy, n) for n in range(3)]):
            total += await call
        print(total)
    with context.Pool(2) as pool:
        future = loop.create_future()
        pool.apply_async(
            heavy, (6,), callback=lambda value: loop.call_soon_threadsafe(future.set_result, value)
        )
        print(await future, await asyncio.to_thread(pool.map, heavy, range(3)))


if __name__ == "__main__":
    asyncio.run(main(mp.get_context(sys.argv[1])))
