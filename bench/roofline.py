#!/usr/bin/env python3
"""Draws what `aclgrad bench --csv` measured under the machine's ceilings, as SVG.

    bench/roofline.py OUT.svg RESULTS.csv...

Across: operations per byte that must move; up: operations a second. Each ceiling is the best peak that the bench saw beside a
problem of its kind: a slope for copies, a level for products of floats (f16 is computed in float) and of bf16."""
import csv
import re
import sys

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plot # noqa: E402, after the choice of the back end

COLORS = {"attention": "tab:blue", "indexer": "tab:orange", "moe": "tab:green"}
MARKERS = {"bf16": "o", "f16": "^", "f32": "s"}


def read(paths):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            rows += [row for row in csv.DictReader(file) if float(row["percent_of_peak"]) > 0]
    return rows


def dtype_of(row):
    found = re.search(r"dtype=(\w+)", row["problem"])
    return found.group(1) if found else "bf16"


def kind_of(row):
    return "copies" if row["peak"] == "copy" else "bf16 products" if dtype_of(row) == "bf16" else "float products"


def ceilings(rows):
    """Kind -> 1e9 bytes or operations a second."""
    best = {}
    for row in rows:
        rate = float(row["gbytes" if row["peak"] == "copy" else "gflops"]) / float(row["percent_of_peak"]) * 100
        best[kind_of(row)] = max(rate, best.get(kind_of(row), 0))
    return best


def draw_ceilings(axes, best, low, high):
    top = max([rate for kind, rate in best.items() if kind != "copies"] or [1e3])
    for kind, rate in best.items():
        if kind == "copies":
            axes.plot([low, top / rate], [low * rate, top], color="black", lw=1)
            axes.annotate(f"copies {rate:.0f} GB/s", (low * 1.2, low * rate * 2), fontsize=8)
        else:
            start = rate / best["copies"] if "copies" in best else low
            axes.plot([start, high], [rate, rate], color="black", lw=1)
            axes.annotate(f"{kind} {rate:.0f} GFLOP/s", (high, rate * 1.06), fontsize=8, ha="right")


def main():
    rows = read(sys.argv[2:])
    if not rows:
        sys.exit("no row with a peak")
    points = [(float(row["gflops"]) / float(row["gbytes"]), float(row["gflops"]), row) for row in rows
              if float(row["gflops"]) > 0] # what only moves bytes has no place on it
    low, high = min(x for x, _, _ in points) / 2, max(x for x, _, _ in points) * 2
    figure, axes = plot.subplots(figsize=(8, 5))
    draw_ceilings(axes, ceilings(rows), low, high)
    labels = set()
    for x, y, row in points:
        operator, dtype = row["problem"].split(":")[0], dtype_of(row)
        label, family = f"{operator} {dtype}", operator.split("_")[0]
        fill = COLORS[family] if operator == family else "none" # forwards and companions are hollow
        axes.plot(x, y, MARKERS[dtype], color=COLORS[family], markerfacecolor=fill, ms=5, alpha=0.8,
                  label=None if label in labels else label)
        labels.add(label)
    axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="GFLOP/s", xlim=(low, high))
    axes.grid(True, which="major", lw=0.3)
    axes.legend(fontsize=8, loc="lower right")
    figure.tight_layout()
    plot.rcParams["svg.hashsalt"] = "aclgrad" # the same numbers give the same file
    figure.savefig(sys.argv[1], metadata={"Date": None})


if __name__ == "__main__":
    main()
