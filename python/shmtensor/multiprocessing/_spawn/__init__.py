"""One call of `spawn`: starting workers, waiting for them, and reporting how each of them ended.

`launch` starts a worker, whose target is in `worker`. At its end the worker sends one report (`report`); the
parent waits for reports and exits in one epoll instance (`monitor`), and turns the first failure into an
exception (`failure`). By `settings` each worker has its own environment, CPUs and output prefix.
"""
