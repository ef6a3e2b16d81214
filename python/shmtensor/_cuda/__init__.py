"""Tensors on a GPU. Nothing is imported here: `shmtensor.cuda` is the public module."""
