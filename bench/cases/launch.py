"""Starting workers: the start method server compared with forkserver and torch's spawn.

    python -m bench launch [--json FILE] [--rounds N] [--only NAME ...]

Each configuration runs in a fresh interpreter. torch is measured if it is installed.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.machine import write_record
from bench.options import program_parser

PREAMBLE = """
import json, os, sys, time
now = time.perf_counter

def median(values):
    return sorted(values)[len(values) // 2]
"""

# A worker that has imported NumPy and shmtensor reports it over a pipe; then it counts as ready.
READY = """
def ready(writer):
    import numpy, shmtensor
    shmtensor.zeros
    writer.send(os.getpid())

def start_and_wait(context, count):
    ends = [context.Pipe(duplex=False) for _ in range(count)]
    begin = now()
    processes = [context.Process(target=ready, args=(writer,)) for _, writer in ends]
    for process in processes:
        process.start()
    for reader, _ in ends:
        reader.recv()
    elapsed = now() - begin
    for process in processes:
        process.join()
    for reader, writer in ends:
        reader.close()
        writer.close()
    return elapsed
"""

ONE = """
def main(rounds):
    import shmtensor.multiprocessing as mp
    context = mp.get_context("server")
    start_and_wait(context, 1)
    return median([start_and_wait(context, 1) for _ in range(rounds)])
"""

EIGHT_OURS = """
def main(rounds):
    import shmtensor.multiprocessing as mp
    context = mp.get_context("server")
    start_and_wait(context, 1)
    return median([start_and_wait(context, 8) for _ in range(rounds)])
"""

EIGHT_FORKSERVER = """
def main(rounds):
    import multiprocessing as mp
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "numpy", "shmtensor", "shmtensor.multiprocessing"])
    start_and_wait(context, 1)
    return median([start_and_wait(context, 8) for _ in range(rounds)])
"""

SPAWN_OURS = """
def work(rank):
    pass

def main(rounds):
    import shmtensor.multiprocessing as mp
    mp.spawn(work, nprocs=1, start_method="server")
    times = []
    for _ in range(rounds):
        begin = now()
        mp.spawn(work, nprocs=8, start_method="server")
        times.append(now() - begin)
    return median(times)
"""

SPAWN_TORCH = """
def work(rank):
    pass

def main(rounds):
    import torch.multiprocessing as mp
    times = []
    for _ in range(max(rounds // 5, 3)):
        begin = now()
        mp.spawn(work, nprocs=8)
        times.append(now() - begin)
    return median(times)
"""

MEMORY = """
def idle(ready, go):
    import numpy, shmtensor
    ready.send(os.getpid())
    go.wait(60)

def private_bytes(pid):
    with open(f"/proc/{pid}/smaps_rollup") as file:
        fields = dict(line.split(":") for line in file.read().splitlines()[1:])
    return sum(int(fields[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) * 1024

def main(rounds):
    import shmtensor.multiprocessing as mp
    context = mp.get_context("server")
    go = context.Event()
    ends = [context.Pipe(duplex=False) for _ in range(4)]
    processes = [context.Process(target=idle, args=(writer, go)) for _, writer in ends]
    for process in processes:
        process.start()
    pids = [reader.recv() for reader, _ in ends]
    used = median([private_bytes(pid) for pid in pids])
    go.set()
    for process in processes:
        process.join()
    return used
"""

CALLS = """
def nothing():
    pass

def main(rounds):
    import shmtensor.multiprocessing as mp
    from bench_importable import nothing as importable
    ratios = []
    with mp.get_context("server").Pool(1) as pool:
        def per_call(function, count=2000):
            begin = now()
            for _ in range(count):
                pool.apply(function)
            return (now() - begin) / count
        per_call(nothing), per_call(importable)
        # In turns, so that what else the machine does falls on both.
        pairs = [(per_call(nothing), per_call(importable)) for _ in range(max(rounds // 2, 5))]
    return {"by id": median([a for a, _ in pairs]), "importable": median([b for _, b in pairs]),
            "ratio": median([a / b for a, b in pairs])}
"""

# A whole pass over a real DataLoader whose data set is defined here, in `__main__`.
LOADER = """
class Squares:
    def __len__(self):
        return 256

    def __getitem__(self, index):
        import torch
        return torch.full((1000,), float(index * index))

def main(rounds):
    import torch
    import torch.utils.data
    import shmtensor.multiprocessing as mp
    if {method!r} == "server":
        mp.set_server_preload(["torch", "torch.utils.data"])
        context = mp.get_context("server")
    else:
        context = {method!r}
    times = []
    for _ in range(max(rounds // 5, 3)):
        begin = now()
        loader = torch.utils.data.DataLoader(
            Squares(), batch_size=32, num_workers=4, multiprocessing_context=context
        )
        batches = list(loader)
        times.append(now() - begin)
        assert [float(batch[i, 0]) for batch in batches for i in range(32)] == [i * i for i in range(256)]
    return median(times)
"""

PROGRAMS = {
    "one worker, server": READY + ONE,
    "8 workers, server": READY + EIGHT_OURS,
    "8 workers, forkserver": READY + EIGHT_FORKSERVER,
    "spawn of 8, server": SPAWN_OURS,
    "spawn of 8, torch": SPAWN_TORCH,
    "private bytes, server": MEMORY,
    "calls over a pool, server": CALLS,
    "torch DataLoader of 4, server": LOADER.format(method="server"),
    "torch DataLoader of 4, forkserver": LOADER.format(method="forkserver"),
}
END = """
if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
"""


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    work: str
    measured: str
    wanted: str
    ratio: float | None
    ok: bool


def run(name: str, rounds: int) -> float | dict[str, float]:
    """Run one program in a fresh interpreter and return its result."""
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bench_program.py"
        program.write_text(PREAMBLE + PROGRAMS[name] + END)
        (Path(folder) / "bench_importable.py").write_text("def nothing():\n    pass\n")
        done = subprocess.run(
            [sys.executable, str(program), str(rounds)], stdout=subprocess.PIPE, check=True, text=True
        )
    answer: float | dict[str, float] = json.loads(done.stdout)
    return answer


def lines(seen: dict[str, list[float | dict[str, float]]]) -> list[Line]:
    """Return the lines of the table from several runs of each program."""

    def of(name: str) -> float:
        return statistics.median(seen[name])  # type: ignore[type-var, arg-type]

    table = []
    if "one worker, server" in seen:
        one = of("one worker, server")
        table.append(Line("a worker ready", f"{one * 1e3:.1f} ms", "8 ms", None, one <= 8e-3))
    if {"8 workers, server", "8 workers, forkserver"} <= set(seen):
        ours, other = of("8 workers, server"), of("8 workers, forkserver")
        text = f"{ours * 1e3:.1f} ms against {other * 1e3:.1f} ms"
        table.append(
            Line("8 workers", text, "at most 1.2 times forkserver", ours / other, ours <= 1.2 * other)
        )
    if {"spawn of 8, server", "spawn of 8, torch"} <= set(seen):
        ours, other = of("spawn of 8, server"), of("spawn of 8, torch")
        text = f"{ours * 1e3:.1f} ms against {other * 1e3:.0f} ms"
        table.append(Line("spawn of 8", text, "20 times faster than torch", other / ours, other >= 20 * ours))
    if "private bytes, server" in seen:
        used = of("private bytes, server")
        table.append(Line("idle worker, private", f"{used / 1e6:.1f} MB", "6 MB", None, used <= 6e6))
    if "calls over a pool, server" in seen:
        calls = [one for one in seen["calls over a pool, server"] if isinstance(one, dict)]
        ratio = statistics.median(call["ratio"] for call in calls)
        by_id, plain = (statistics.median(call[key] for call in calls) for key in ("by id", "importable"))
        text = f"{by_id * 1e6:.0f} us against {plain * 1e6:.0f} us"
        table.append(Line("call by id", text, "at most 1.2 times importable", ratio, ratio <= 1.2))
    if {"torch DataLoader of 4, server", "torch DataLoader of 4, forkserver"} <= set(seen):
        ours, other = of("torch DataLoader of 4, server"), of("torch DataLoader of 4, forkserver")
        text = f"{ours * 1e3:.0f} ms against {other * 1e3:.0f} ms"
        table.append(Line("torch DataLoader", text, "the right values", ours / other, True))
    return table


def main(arguments: list[str] | None = None) -> int:
    parser = program_parser("launch", __doc__)
    parser.add_argument("--rounds", type=int, default=20, help="starts in each process")
    parser.add_argument("--runs", type=int, default=3, help="processes for each configuration, in turns")
    parser.add_argument("--only", nargs="*", default=list(PROGRAMS), choices=list(PROGRAMS))
    chosen = parser.parse_args(arguments)
    names = [name for name in chosen.only if "torch" not in name or importlib.util.find_spec("torch")]
    seen: dict[str, list[float | dict[str, float]]] = {name: [] for name in names}
    for _ in range(chosen.runs):
        for name in names:
            seen[name].append(run(name, chosen.rounds))
    table = lines(seen)
    for line in table:
        ratio = "" if line.ratio is None else f" ({line.ratio:.2f})"
        print(f"{'ok  ' if line.ok else 'MISS'} {line.work}: {line.measured}{ratio}; wanted: {line.wanted}")
    if chosen.json:
        write_record(chosen.json, {"seen": seen})
    return 0 if all(line.ok for line in table) else 1


if __name__ == "__main__":
    sys.exit(main())
