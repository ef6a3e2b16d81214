"""How long workers and their descriptors live.

A worker, and all that it started, ends when its parent ends: the kernel signals the reader of a pipe whose
only writer is the parent (`parent_death`). Forked children of the parent must therefore not keep that writer
open (`shmtensor._fork`). A worker that is terminated is terminated with its descendants (`descendants`).
"""
