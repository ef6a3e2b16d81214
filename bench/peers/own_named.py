"""shmtensor with named shared memory."""

from __future__ import annotations

from bench.peers.own import Own

__all__ = ["PEER"]

PEER = Own("shmtensor-fs", "file_system")
