"""An event loop reads the results of its processes: by a thread, by the reader's descriptor, by a pipe."""
# methods: fork spawn server

import asyncio
import multiprocessing as mp
import sys


def work(queue, writer, name):
    for number in range(3):
        queue.put((name, number))
        writer.send(f"{name} has done {number}")
    writer.close()


async def main(context):
    loop = asyncio.get_running_loop()
    queue, (reader, writer) = context.Queue(), context.Pipe(duplex=False)
    processes = [context.Process(target=work, args=(queue, writer, name)) for name in "ab"]
    for process in processes:
        process.start()
    writer.close()
    found, lines, ended = [], [], loop.create_future()

    def read():
        try:
            while reader.poll():
                lines.append(reader.recv())
        except EOFError:
            loop.remove_reader(reader.fileno())
            ended.set_result(None)

    loop.add_reader(reader.fileno(), read)
    for _ in range(3):
        found.append(await asyncio.to_thread(queue.get))
    ready = asyncio.Event()
    loop.add_reader(queue._reader.fileno(), ready.set)
    while len(found) < 6:
        await ready.wait()
        ready.clear()
        while len(found) < 6 and not queue.empty():
            found.append(queue.get())
    loop.remove_reader(queue._reader.fileno())
    await ended
    for process in processes:
        await asyncio.to_thread(process.join)
    print(sorted(found), *sorted(lines), sep="\n")


if __name__ == "__main__":
    asyncio.run(main(mp.get_context(sys.argv[1])))
