"""Sending functions and classes by value that a worker of the start method ``"server"`` cannot import.

A pickler hook (`reducer`) replaces them by an id (`object_ids`) and a pickle made by cloudpickle (`pickler`),
which is written once to a file that workers inherit (`code_store`). Functions of one main module share their
globals in each worker (`namespaces`); what has changed since the last send is sent again (`snapshot`).
"""
