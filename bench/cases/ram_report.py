"""The tables of the case `ram`."""

from __future__ import annotations

from typing import Any

from bench.cases.ram_setups import SETUPS

MIB = 2**20
_COLUMNS = ("rss", "pss", "uss", "shared", "shared_file")


def table_of(result: dict[str, Any]) -> str:
    """Return the post's table of one set-up, in MiB."""
    lines = [f"\n{SETUPS[result['setup']][3]}  ({result['seconds']:.0f} s)"]
    lines.append(f"{'':18}" + "".join(f"{name:>12}" for name in _COLUMNS))
    for process in sorted(result["processes"], key=lambda one: one["role"]):
        sizes = "".join(f"{process[name] / MIB:12.1f}" for name in _COLUMNS)
        lines.append(f"{process['role']:18}{sizes}")
    lines.append(f"PSS of all: {result['pss'] / MIB:.0f} MiB")
    return "\n".join(lines)


def _worst_worker(result: dict[str, Any]) -> float:
    return max(one["uss"] for one in result["processes"] if "worker" in one["role"]) / MIB


def goals_of(results: dict[str, Any]) -> str:
    """Return the goals with the measured values."""
    rows: list[tuple[str, str, str, bool]] = []
    empty = results["empty"]["processes"][0]["uss"] / MIB
    for name, result in results["setups"].items():
        if SETUPS[name][0] != "ours":
            continue
        bare = results["without data"][name]
        above = _worst_worker(result) - empty
        rows.append(
            (f"USS of a worker above an empty one, {name}", "<= 6 MB", f"{above:.1f} MiB", above <= 6)
        )
        data = result["nbytes"]
        ratio = (result["pss"] - bare["pss"]) / data
        rows.append(
            (
                f"PSS of all, less that without data, {name}",
                "<= 1.1 of the bytes",
                f"{ratio:.3f}",
                ratio <= 1.1,
            )
        )
        if SETUPS[name][2] == 2:
            more = result["pss"] - result["pss of first rank"]
            more -= bare["pss"] - bare["pss of first rank"]
            part = more / data
            rows.append(
                ("second rank with four workers adds", "< 5 % of the data", f"{part:.1%}", part < 0.05)
            )
    speed = results["speed"]
    for what, limit in (("access annotation", 1.15), ("access small dict", 1.15)):
        value = speed[f"{what} ratio"]
        rows.append((f"{what}, beside pickle.loads", f"<= {limit}", f"{value:.2f}", value <= limit))
    value = speed["access array us"]
    rows.append(("access to an array", "<= 2 us", f"{value:.2f} us", value <= 2))
    for what in ("build annotation", "build small dict"):
        value = speed[f"{what} ratio"]
        rows.append((f"{what}, beside pickle.dumps", "<= 1.2", f"{value:.2f}", value <= 1.2))
    lines = ["", f"An empty Python with NumPy: USS {empty:.1f} MiB", ""]
    width = max(len(row[0]) for row in rows)
    lines += [
        f"{what:{width}}  {goal:20} {got:>10}  {'ok' if ok else 'MISSED'}" for what, goal, got, ok in rows
    ]
    return "\n".join(lines)
