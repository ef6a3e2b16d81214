"""Torch's tests whose results the integration changes, with reasons."""

from __future__ import annotations

_COPIED = "the sender's tensor is copied, and does not change with the receiver's"
_NO_FILE = "there is no file in /dev/shm"

DIFFERENCES: dict[str, dict[str, str]] = {
    "on": {
        "test_fd_pool": _COPIED,
        "test_fd_preserve_sharing": _COPIED,
        "test_fd_sharing": _COPIED,
        "test_fs": _NO_FILE,
        "test_fs_pool": _COPIED,
        "test_fs_preserve_sharing": _COPIED,
        "test_fs_sharing": _COPIED,
        "test_parameter_sharing": _COPIED,
        "test_variable_sharing": _COPIED,
    },
    "alias": {
        "test_fs": _NO_FILE,
    },
}
