"""One table for all ranks of a node, and their results as handles: mpirun -n 4 python examples/node_ranks.py.

It counts the values of a table on any number of nodes: ranks of a node send tensors through a queue in
shared memory, nodes send bytes through MPI. Needs mpi4py.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

import shmtensor as st

ROWS, VALUES = 10_000_000, 256


def build() -> tuple[int, st.Tensor]:
    """Return the rank that builds the table of its node, and the table."""
    return MPI.COMM_WORLD.rank, st.asarray(np.random.default_rng(0).integers(VALUES, size=ROWS))


def main() -> None:
    """Count this rank's part of the table; the first rank of each node adds the counts of its node."""
    world = MPI.COMM_WORLD
    node = world.Split_type(MPI.COMM_TYPE_SHARED)
    leaders = world.Split(int(node.rank != 0))
    builder, table = st.once("table", build)
    results: st.Queue[st.Tensor] = st.once("results", st.Queue)

    counts = st.zeros(VALUES, "int64")
    counts += np.bincount(table.numpy()[world.rank :: world.size], minlength=VALUES)
    results.put(counts)
    if node.rank != 0:
        return
    of_node = sum(results.get(timeout=60).numpy() for _ in range(node.size))
    total = leaders.reduce(of_node)
    builders = leaders.gather(builder)
    if world.rank == 0:
        assert total.sum() == ROWS
        print(
            f"{world.size} ranks on {leaders.size} nodes, a table of {table.nbytes >> 20} MiB on each, "
            f"built by ranks {builders}; the most frequent value: {total.argmax()}"
        )


if __name__ == "__main__":
    main()
