"""shmtensor with named shared memory."""

from __future__ import annotations

from bench.peers.shmtensor import Shmtensor

__all__ = ["PEER"]

PEER = Shmtensor("shmtensor-fs", "file_system")
