"""Experiments on driver behaviour that the CUDA documentation does not specify.

``python -m probes.facts [--json FILE] [--seconds N] [EXPERIMENT ...]``. The parent never uses CUDA: each
experiment runs in its own process, with a time limit. The answer of an experiment that fails or takes too
long is ``{"error": what happened}``; so may be a part of an answer. The file is written after each
experiment. On the simulated driver (SHMTENSOR_LIBCUDA) the answers are the simulator's; the table is marked
as simulated, and no time is measured.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from probes import (
    capture_experiments,
    library_experiments,
    memory_experiments,
    order_experiments,
    pin_experiments,
    rule_experiments,
    times,
    work,
    work_experiments,
)
from probes.children import ask
from probes.keep import keep

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 40.0  # seconds for one experiment; each takes a few, mostly to start the driver
SECONDS = 240.0


EXPERIMENTS: tuple[Callable[[], Any], ...] = (
    memory_experiments.open_handle_after_exporter_exit,
    memory_experiments.read_mapping_after_exporter_kill,
    memory_experiments.import_descriptor_left_in_socket,
    memory_experiments.export_imported_memory,
    memory_experiments.handle_of_interior_and_freed_pointer,
    memory_experiments.driver_calls_in_forked_child,
    memory_experiments.open_own_handle,
    order_experiments.open_handle_across_namespaces,
    order_experiments.open_destroyed_event,
    order_experiments.open_event_of_killed_process,
    work_experiments.query_event_of_killed_process,
    work_experiments.wait_for_event_of_killed_process,
    work_experiments.calls_that_return_during_work,
    rule_experiments.contents_of_new_memory,
    rule_experiments.write_without_the_right,
    rule_experiments.open_in_a_second_context,
    rule_experiments.attributes_of_plain_memory,
    rule_experiments.calls_without_a_descriptor,
    capture_experiments.calls_during_a_capture,
    capture_experiments.relaxed_calls_during_a_capture,
    pin_experiments.time_registration,
    pin_experiments.speed_of_registered_memory,
    pin_experiments.registered_neighbours,
    pin_experiments.registered_memory_after_a_hole,
    pin_experiments.unregister_during_a_copy,
    pin_experiments.registered_read_only_mapping,
    pin_experiments.unmapped_while_registered,
    pin_experiments.registered_by_two_processes,
    pin_experiments.events_of_a_context,
    pin_experiments.registered_memory_in_torch,
    times.time_import_and_mapping,
    library_experiments.cupy_on_virtual_memory,
    library_experiments.torch_on_virtual_memory,
    library_experiments.numba_on_virtual_memory,
    library_experiments.jax_on_virtual_memory,
    library_experiments.export_torch_expandable_segments,
    order_experiments.stream_memory_operations_on_import,
    work.device_work_after_process_exit,
    memory_experiments.virtual_memory_granularity,
)
LONGER = {
    times.time_import_and_mapping: 60.0,
    library_experiments.cupy_on_virtual_memory: 75.0,
    library_experiments.torch_on_virtual_memory: 75.0,
    library_experiments.numba_on_virtual_memory: 75.0,
    library_experiments.jax_on_virtual_memory: 75.0,
}


def without_answer(answer: Any) -> bool:
    """Return True if the answer, or a part of it, is an error."""
    return isinstance(answer, dict) and ("error" in answer or any(map(without_answer, answer.values())))


def main() -> int:
    """Run the experiments, print a table, and write it to the file given by `--json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="time limit of all together")
    parser.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="names (default: all)")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    simulated = "SHMTENSOR_LIBCUDA" in os.environ
    print("answers of the SIMULATED driver" if simulated else "answers of the driver")
    answers: dict[str, Any] = {}
    for experiment in EXPERIMENTS:
        name, left = experiment.__name__, end - time.monotonic()
        if options.experiments and name not in options.experiments:
            continue
        if left > 5:
            answer = ask(experiment, min(LONGER.get(experiment, LIMIT), left))
        else:
            answer = {"error": f"not run: the {options.seconds:.0f} s are over"}
        answers[name] = answer
        keep(options.json, {"simulated": simulated, "answers": answers})
        print(f"{name}: {experiment.__doc__}\n    {answer}", flush=True)
    failed = [name for name, answer in answers.items() if without_answer(answer)]
    print(f"{len(answers)} experiments; without a complete answer: {', '.join(failed) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
