"""Sending functions and classes by value that a worker of the start method ``"server"`` cannot import.

A pickler hook (`reducer`) replaces them by an id (`object_ids`) and a pickle made by cloudpickle (`pickler`),
which is written once to a file that workers inherit (`code_store`). Functions of one main module share their
globals in each worker (`namespaces`). What the program has assigned since the last send (`contents`) is sent
again with a higher number; a worker takes what has a higher number than its own.
"""
