"""Starting workers that all call one function, each with its rank."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from shmtensor.multiprocessing._signature import typed
    from shmtensor.multiprocessing._spawn.settings import Affinity, Environments
    from shmtensor.multiprocessing.errors import (
        ProcessException,
        ProcessExitedException,
        ProcessRaisedException,
    )
    from shmtensor.multiprocessing.process_context import ProcessContext
else:

    def typed(function):  # noqa: ANN001, ANN202  # the import would take longer than the rest of this module
        return function


__all__ = [
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "spawn",
    "start_processes",
]
__dir__ = __all__.copy


def __getattr__(name: str) -> Any:
    if name in __all__:
        from shmtensor.multiprocessing import errors, process_context

        return getattr(process_context if name == "ProcessContext" else errors, name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)


@typed
def spawn(  # noqa: PLR0917  # torch's signature
    fn: Callable[..., Any],
    args: tuple[Any, ...] | list[Any] = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
    *,
    env: Environments = None,
    affinity: Affinity = None,
    prefix_output: bool | str = False,
) -> ProcessContext | None:
    """Start workers that call ``fn(rank, *args)``, and wait for them.

    Tensors in arguments, return values and exceptions travel as handles. The workers start in parallel. They,
    and what they start, end within a second after this process ends, however it ends. Any thread may call
    this.

    Parameters
    ----------
    fn
        The function. Workers of spawn and forkserver must be able to import it by its name.
    args
        Arguments that follow the rank: a tuple or a list.
    nprocs
        Number of workers.
    join
        Wait for the workers; if false, return immediately.
    daemon
        Make the workers daemonic: they are terminated when this process exits.
    start_method
        ``"spawn"``, ``"forkserver"``, ``"fork"``, ``"server"``, or ``"auto"``.
    env
        Environment variables of the workers (None as a value removes one): a dict for all, a sequence with
        a dict for each rank, or a function of the rank. They are set when a worker of spawn starts, and in
        other workers before the function is called.
    affinity
        The CPUs that workers may use: a set for all, a sequence with a number or a collection of numbers for
        each rank, or a function of the rank.
    prefix_output
        True puts ``[rank]`` before each line that workers print; a string is the prefix itself, in which
        ``{rank}`` is replaced.

    Returns
    -------
    ProcessContext or None
        None if `join` is true.

    Raises
    ------
    ProcessRaisedException, ProcessExitedException
        If `join` is true and a worker failed; see `ProcessContext.join`.

    Examples
    --------
    >>> import shmtensor as st
    >>> import shmtensor.multiprocessing as mp
    >>> def work(rank, tensor):
    ...     tensor[rank] = rank
    >>> tensor = st.zeros(4)
    >>> mp.spawn(work, (tensor,), nprocs=4, start_method="fork")
    >>> tensor.tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    if not isinstance(args, (tuple, list)):  # tensors and strings are iterable, too
        msg = f"args must be a tuple or list of arguments, such as (x,); got {type(args).__name__}"
        raise TypeError(msg)
    from shmtensor._values import check_integer
    from shmtensor.multiprocessing._spawn.launch import launch
    from shmtensor.multiprocessing._spawn.settings import settings_by_rank
    from shmtensor.multiprocessing.context import default_context
    from shmtensor.multiprocessing.process_context import ProcessContext

    nprocs = check_integer("nprocs", nprocs, 0)
    settings = settings_by_rank(nprocs, env, affinity, prefix_output)
    method = default_context.get_context(start_method)
    context = ProcessContext()
    try:
        for rank in range(nprocs):
            context._add(launch(method, rank, fn, tuple(args), settings[rank], daemon))
        if not join:
            return context
        context.join()
    except BaseException:
        context._stop()  # also after an interrupt: the caller has no context to wait with
        raise
    return None


start_processes = spawn  # torch's other name
