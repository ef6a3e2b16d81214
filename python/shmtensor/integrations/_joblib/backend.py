"""The backend ``"shmtensor"`` of joblib: workers of the start method ``"server"``, our queues.

A call that overlaps another one in the same `parallel_config` gets another object, since joblib does not
name the call that it means. After an error the pool is terminated; nothing that joblib keeps refers to it,
so its queues are freed immediately with their unread messages.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from joblib import _parallel_backends
from joblib._memmapping_reducer import ArrayMemmapForwardReducer
from joblib.externals.loky import cpu_count
from joblib.parallel import AutoBatchingMixin, FallbackToBackend, ParallelBackendBase, SequentialBackend

from shmtensor.integrations._joblib import pools
from shmtensor.integrations._joblib.arrays import Arguments
from shmtensor.integrations._joblib.calls import Call, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from shmtensor.multiprocessing.pool import Pool

_parallel_backends.cpu_count = cpu_count  # joblib imports it only where locks can be made: with /dev/shm
_OPTIONS = ("idle_worker_timeout", "initializer", "initargs")


class Backend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """What joblib calls to run batches. One object has the pool of one call of `Parallel` at a time.

    Parameters
    ----------
    **options
        Those that joblib gives to every backend, and `idle_worker_timeout`, `initializer`, `initargs` as for
        ``"loky"``.
    """

    supports_inner_max_num_threads = True
    supports_retrieve_callback = True
    supports_return_generator = True
    supports_timeout = True

    _pool: Pool | None = None

    def __init__(self, **options: Any) -> None:
        self._options = {name: options.pop(name) for name in _OPTIONS if name in options}
        super().__init__(**options)  # which keeps other options since joblib 1.5 only
        self._unfinished = 0
        self._changed = threading.Condition()

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return the number of workers that `configure` would start."""
        if n_jobs == 0:
            msg = "n_jobs == 0 in Parallel has no meaning"
            raise ValueError(msg)
        if n_jobs is None or n_jobs == 1:
            return 1
        return n_jobs if n_jobs > 0 else max(cpu_count() + 1 + n_jobs, 1)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **options: Any) -> int:
        """Prepare for calls of one `Parallel`; return the number of workers."""
        count = self.effective_n_jobs(n_jobs)
        if count == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        if self._pool is not None:  # of another call in the same `parallel_config`: a generator
            raise FallbackToBackend(self._another())
        self.parallel = parallel
        self._configured = {"n_jobs": n_jobs, "parallel": parallel, **options}
        options = {**self._options, **options}
        mode = options.get("mmap_mode")
        in_file = ArrayMemmapForwardReducer(None, None, mode, False)
        self._arguments = Arguments(options.get("max_nbytes"), mode, in_file)
        self._idle_timeout = options.get("idle_worker_timeout") or 300.0
        self._settings = pools.Settings(
            count,
            self._prepare_worker_env(n_jobs=count),
            options.get("initializer"),
            tuple(options.get("initargs", ())),
        )
        self._unfinished = 0
        self._pool = pools.take(self._settings)
        return count

    def _another(self) -> Backend:
        limit = self.inner_max_num_threads
        return type(self)(nesting_level=self.nesting_level, inner_max_num_threads=limit, **self._options)

    def submit(self, func: Any, callback: Callable[[Any], None] | None = None) -> _Job | None:
        """Give a batch to a worker; `callback` gets what `retrieve_result_callback` understands."""
        pool = self._pool
        if pool is None:
            return None  # another thread has aborted the call
        job = _Job(self, callback)
        with self._changed:
            self._unfinished += 1
        try:
            call: Any = Call(func, self._arguments)
            pool.apply_async(call, callback=job.finish, error_callback=job.finish)
        except ValueError:
            if pool is self._pool:
                raise
        return job

    def finished(self) -> None:
        """Count a batch whose callback has been called."""
        with self._changed:
            self._unfinished -= 1
            self._changed.notify()

    apply_async = submit  # the name before joblib 1.5

    def retrieve_result_callback(self, out: Outcome | BaseException) -> Any:
        """Return the results of a batch, or raise the exception of one of its calls."""
        if isinstance(out, BaseException):
            raise out
        return out.result()

    @contextmanager
    def retrieval_context(self) -> Iterator[None]:
        """Wait for the results of a call that returns a list: joblib would look for them each 10 ms."""
        parallel = self.parallel
        if parallel.timeout is None and getattr(parallel, "return_generator", True) is False:
            with self._changed:
                self._changed.wait_for(lambda: not self._unfinished or parallel._aborting)
        yield

    def terminate(self) -> None:
        """Release the pool and what was copied for the call."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pools.give_back(self._settings, pool, self._idle_timeout)
            self._arguments.copies.clear()
        self.reset_batch_stats()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Kill the workers; with `ensure_ready`, start others."""
        pool, self._pool = self._pool, None
        if pool is not None:
            pools.end(pool)
            self._arguments.copies.clear()
        if ensure_ready:
            self.configure(**self._configured)


class _Job:
    """A batch that was submitted.

    It does not refer to the pool, so that nothing of the pool is left after a call that fails.
    """

    def __init__(self, backend: Backend, callback: Callable[[Any], None] | None) -> None:
        self._backend = backend
        self._callback = callback

    def finish(self, out: Outcome | BaseException) -> None:
        """Pass on what the worker has sent; runs in a thread of the pool."""
        callback, self._callback = self._callback, None  # it refers to this object
        try:
            if callback is not None:
                callback(out)  # this submits the next batch, or notes that the call has failed
        finally:
            self._backend.finished()
