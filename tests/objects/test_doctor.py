"""doctor: the report, also on machines that hide or lack what it checks."""

from __future__ import annotations

import os
import platform
import resource
from pathlib import Path

import pytest

import shmtensor as st
from shmtensor import _core, _doctor


def finding(report, name: str):
    (found,) = (one for one in report if one.name == name)
    return found


def test_doctor_returns_one_line_per_finding() -> None:
    report = st.doctor()
    assert isinstance(report, tuple)
    assert len(report) >= 8
    lines = str(report).splitlines()
    assert repr(report) == str(report)
    assert len(lines) == len(report)
    for line, one in zip(lines, report, strict=True):
        assert one.name in line
        assert one.text in line
        assert line.startswith("ok" if one.ok else "WARN")
    assert {"kernel", "memfd", "descriptors", "mappings", "/dev/shm", "memory", "manager"} <= {
        one.name for one in report
    }


def test_doctor_is_ok_only_if_every_finding_is() -> None:
    good, bad = _doctor.Finding("a", True, "fine"), _doctor.Finding("b", False, "not so")
    assert _doctor.Report([good]).ok
    assert not _doctor.Report([good, bad]).ok
    assert str(_doctor.Report([good, bad])) == "ok    a: fine\nWARN  b: not so"


def test_doctor_runs_installed_manager() -> None:
    assert finding(st.doctor(), "manager").ok


def test_doctor_works_without_proc_files(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(
        _doctor, "Path", lambda path: tmp_path / "nothing" if str(path).startswith("/proc") else Path(path)
    )
    report = st.doctor()
    assert finding(report, "mappings").ok
    assert finding(report, "mappings").text == "vm.max_map_count is unknown"
    assert finding(report, "overcommit").ok


@pytest.mark.parametrize("content", ["", "not a number", "\0"])
def test_doctor_tolerates_malformed_proc_files(monkeypatch, tmp_path, content) -> None:
    file = tmp_path / "file"
    file.write_text(content)
    monkeypatch.setattr(_doctor, "Path", lambda path: file if str(path).startswith("/proc") else Path(path))
    assert finding(st.doctor(), "mappings").ok


def test_doctor_reports_missing_dev_shm(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(_doctor, "_DEV_SHM", str(tmp_path / "missing"))
    found = finding(st.doctor(), str(tmp_path / "missing"))
    assert not found.ok
    assert "standard library's locks" in found.text


@pytest.mark.parametrize("chosen", ["never", "deny", "advise", "within_size", "always"])
def test_doctor_advises_a_setting_of_huge_pages_with_effect(monkeypatch, chosen) -> None:
    """Regression: it advised 'advise', which nothing in the core asks for."""
    monkeypatch.setattr(_doctor, "_read", lambda _: f"always never [{chosen}]")
    text = next(_doctor._huge_pages()).text
    has_effect = chosen in ("within_size", "always")
    assert text == f"for shared memory: {chosen}" if has_effect else "no; 'within_size' in" in text


@pytest.mark.parametrize("release", ["5.4.0-42-generic", "6.1", "6.8.0+", "7-rc1", "5.4-foo"])
def test_doctor_accepts_supported_kernels(monkeypatch, release) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    assert finding(st.doctor(), "kernel").ok


@pytest.mark.parametrize("release", ["4.19.0-20-amd64", "5.3.18", "3.10", "unknown", ""])
def test_doctor_flags_old_and_unknown_kernels(monkeypatch, release) -> None:
    monkeypatch.setattr(platform, "release", lambda: release)
    found = finding(st.doctor(), "kernel")
    assert not found.ok
    assert "5.4 or newer" in found.text


def test_doctor_names_remedy_for_missing_features(monkeypatch) -> None:
    for name in ("has_memfd", "has_pidfd", "has_populate"):
        monkeypatch.setattr(_core, name, lambda: False)
    report = st.doctor()
    assert not report.ok
    assert "seccomp profile" in finding(report, "memfd").text


def test_doctor_flags_tight_limits(monkeypatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (32, 64))
    report = st.doctor()
    assert not finding(report, "descriptors").ok
    assert "32" in finding(report, "descriptors").text
    assert "ulimit -v" in finding(report, "address space").text


def test_doctor_flags_manager_that_cannot_run(monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: "manager" not in str(path))
    assert "reinstall" in finding(st.doctor(), "manager").text
