"""torch.multiprocessing with named shared memory."""

from __future__ import annotations

from bench.peers.torch_descriptor import Torch

__all__ = ["PEER"]

PEER = Torch("torch-fs", "file_system")
