"""Programs whose main module travels by value to workers of the start method `server`."""

from __future__ import annotations

import textwrap
from pathlib import Path

from tests.helpers.children import output, run_program, write_program

START = """
    import dataclasses, enum, functools, os, pickle, sys, threading
    from concurrent.futures import ProcessPoolExecutor
    import shmtensor as st
    import shmtensor.multiprocessing as mp
    context = mp.get_context("server")
"""


def run_with_server(folder: Path, program: str) -> str:
    """Run a program after the common imports, and return its output."""
    return output(run_program(write_program(folder, textwrap.dedent(START) + textwrap.dedent(program))))
