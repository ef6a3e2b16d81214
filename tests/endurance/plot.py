"""``python -m tests.endurance.plot RESULT.json OUT.svg`` (needs matplotlib)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

PANELS = {
    "resident bytes": ("private memory of all, MiB", 1 << 20),
    "reserved bytes": ("reserved in arenas, MiB", 1 << 20),
    "live blocks": ("live blocks", 1),
    "descriptors": ("descriptors of all", 1),
    "latency": ("put to get, median, ms", 1e-3),
    "latency p99": ("put to get, 99 %, ms", 1e-3),
}


def plot(result: dict, path: Path) -> None:
    figure = Figure(figsize=(9, 6), layout="constrained")
    FigureCanvasSVG(figure)
    minutes = [one["seconds"] / 60 for one in result["looks"]]
    for axes, (name, (title, unit)) in zip(figure.subplots(3, 2).flat, PANELS.items(), strict=True):
        axes.plot(minutes, [one[name] / unit for one in result["looks"]], linewidth=0.8)
        axes.set_title(title, fontsize=9)
        axes.set_ylim(bottom=0)
        axes.tick_params(labelsize=8)
    figure.supxlabel("minutes", fontsize=9)
    figure.savefig(path)


if __name__ == "__main__":
    plot(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
