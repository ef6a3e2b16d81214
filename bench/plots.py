"""Plots of the results pages."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from bench.kept import Record

__all__ = ["plot"]

WIDTH = 5.5  # inches, so that the text is readable on a phone


def plot(result: Record, path: Path) -> None:
    """Draw the medians of a case, a group of bars for each thing measured, on a logarithmic scale."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    unit = result["rows"][0]["unit"]
    rows = [row for row in result["rows"] if row["unit"] == unit]
    things = list(dict.fromkeys(row["what"] for row in rows))
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    with rc_context({"svg.hashsalt": "shmtensor", "svg.fonttype": "none"}):  # same numbers, same file
        figure = Figure(figsize=(WIDTH, 1.3 + 0.15 * len(rows) + 0.2 * len(things)), layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots()
        high = 0.8 / len(peers)
        for place, peer in enumerate(peers):
            mine = [row for row in rows if row["peer"] == peer]
            axes.barh(
                [things.index(row["what"]) + (place - (len(peers) - 1) / 2) * high for row in mine],
                [row["summary"]["median"] for row in mine],
                height=high,
                label=peer,
                color=f"C{place % 10}",
            )
        axes.set_yticks(range(len(things)), [fill(thing, 18) for thing in things], fontsize="small")
        axes.margins(y=0.02)
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.tick_params(axis="x", top=True, labeltop=True)
        axes.set_xlabel(unit)
        axes.grid(alpha=0.3, axis="x")
        figure.legend(loc="outside upper center", ncols=3, fontsize="small", frameon=False)
        figure.savefig(path, metadata={"Date": None})
