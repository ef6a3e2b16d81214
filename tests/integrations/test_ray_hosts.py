"""Actors of two hosts: handles within each, bytes between them, and the results of a program are the same."""

from __future__ import annotations

import shlex
import sys

import pytest

from tests.helpers.children import importing_tests, run_command
from tests.helpers.namespaces import ADDRESSES, on_two_hosts
from tests.helpers.ray_programs import QUIET
from tests.integrations.programs import PROGRAMS


@pytest.mark.thorough
@pytest.mark.timeout(240)  # two clusters
def test_two_hosts(tmp_path) -> None:
    """The sessions of both have the same name. Each has a folder /tmp/ray of its own."""
    ray = shlex.join([sys.executable, "-m", "ray.scripts.scripts", "start", "--disable-usage-stats"])
    limits = "--num-cpus 4 --object-store-memory 100000000"
    first, second = ADDRESSES
    outputs = []
    for state in ("on", "off"):
        folder = tmp_path / state
        folder.mkdir()
        head = f"{ray} --head --port 6379 --node-ip-address {first} --include-dashboard false {limits}"
        run = shlex.join([sys.executable, str(PROGRAMS / "ray_hosts.py"), state])
        worker = f"{ray} --address {first}:6379 --node-ip-address {second} --block {limits}"
        prepare = "mkdir -p /tmp/ray && mount -t tmpfs none /tmp/ray"
        command = on_two_hosts(
            folder,
            ["sh", "-c", f"{prepare} && {head} > /dev/null && {run}"],
            ["sh", "-c", f"{prepare} && until {worker} > /dev/null; do sleep 0.2; done"],
        )
        environment = {**importing_tests(), **QUIET, "SHMTENSOR_SESSION": "train"}
        done = run_command(command, timeout=110, env={**environment, "RAY_ADDRESS": f"{first}:6379"})
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert outputs[0].startswith("['alpha', 'alpha', 'beta', 'beta']\n")
