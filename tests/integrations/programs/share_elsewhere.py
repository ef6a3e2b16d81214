"""Objects of `share` travel to workers and back. Argument: a library, and its backend or start method."""

import sys

import joblib
import loky
import multiprocess
from joblib.externals.loky import get_reusable_executor

import shmtensor as st
from tests.helpers.empty_sessions import wait_for_no_blocks
from tests.helpers.frames import MAKERS, equals, is_shared

KINDS = ("pandas", "pandas column", "arrow", "arrow slice", "polars", "polars series", "xarray", "scipy")


def check(value):
    return is_shared(value), value


def by_joblib(backend, values):
    return joblib.Parallel(2, backend=backend)(joblib.delayed(check)(value) for value in values)


def by_loky(values):
    with loky.ProcessPoolExecutor(2) as executor:
        return list(executor.map(check, values))


def by_multiprocess(method, values):
    with multiprocess.get_context(method).Pool(2) as pool:
        return pool.map(check, values)


if __name__ == "__main__":
    transport, _, option = sys.argv[1].partition(" ")
    st.install("joblib", "loky", "multiprocess")
    values = {kind: st.share(MAKERS[kind]()) for kind in KINDS}
    send = globals()[f"by_{transport}"]
    found = send(*filter(None, [option]), list(values.values()))
    for (kind, value), (there, back) in zip(values.items(), found, strict=True):
        assert there, f"a copy of {kind} arrived"
        assert is_shared(back), f"{kind} came back as a copy"
        assert equals(back, value), kind
    del values, value, found, back
    st.uninstall()  # which ends the workers that are kept
    if option == "loky":
        get_reusable_executor().shutdown()  # which has queues
    wait_for_no_blocks()
