#!/usr/bin/env python3
"""Compares two builds of the command, or the product with its peers: runs them in turns, A B A B, and speaks only when
their times do not overlap.

    bench/compare.py [OPTION...] A B [PROBLEM | @FILE ...]      default: @bench/smoke.txt

A and B are commands: "old/bin/aclgrad", "build/bin/aclgrad --isa avx2", or anything else that takes --csv, --seconds N and a
problem and prints columns min_ms and problem, as bench/peers do. One that prints no row cannot do the problem.

Per problem each command gives a time per round, the fastest run of that round; one that takes three times as long as A
has one round. Its interval reaches from the fastest round to the upper quartile: noise only ever adds time, so the slowest
rounds say nothing. Printed is B's best time as a multiple of A's, and the interval that follows: [B's fastest / A's quartile,
B's quartile / A's fastest]. With 8 rounds two equal commands part by chance in 1 of 140 problems, with 12 in 1 of 3,000. A
difference below --least percent is called none."""
import argparse
import csv
import io
import os
import shlex
import subprocess
import sys


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", default="0.3", help="of each run (default 0.3)")
    parser.add_argument("--least", type=float, default=2, help="percent that count as a difference (default 2)")
    parser.add_argument("--also", action="append", default=[], metavar="COMMAND", help="one more command, compared with A")
    parser.add_argument("--csv", metavar="FILE", help="write the table there too")
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("problems", nargs="*")
    return parser.parse_intermixed_args()


def read_problems(operands):
    problems = []
    for operand in operands:
        if operand.startswith("@"):
            with open(operand[1:], encoding="utf-8") as file:
                problems += [line.split("#")[0].strip() for line in file]
        else:
            problems.append(operand)
    return [problem for problem in problems if problem]


def command_words(text, seconds):
    """The product, also behind chrt or taskset, is asked to bench; others know what to do."""
    words = shlex.split(text)
    programs = [os.path.basename(word) for word in words]
    if "aclgrad" in programs and "bench" not in words and not any(name.endswith(".py") for name in programs):
        words += ["bench", "--no-peak"]
    return words + ["--csv", "--seconds", seconds]


def fastest_ms(words, problem):
    """None: cannot do it."""
    result = subprocess.run(words + [problem], stdout=subprocess.PIPE, check=False)
    if result.returncode != 0:
        sys.exit(f"{shlex.join(words)} '{problem}': exit code {result.returncode}")
    rows = list(csv.DictReader(io.StringIO(result.stdout.decode())))
    return float(rows[0]["min_ms"]) if rows else None


def interval(times):
    """Fastest, and upper quartile."""
    times = sorted(times)
    return times[0], times[max(0, (3 * len(times) + 3) // 4 - 1)]


def judge(ratio, low, high, least):
    if low <= 1 <= high or abs(ratio - 1) * 100 < least:
        return "no difference"
    return "slower" if ratio > 1 else "faster"


def measure(commands, problem, rounds):
    """A list of times for each command; one that takes three times as long as A is not asked again."""
    times = [[] for _ in commands]
    able = list(range(len(commands)))
    for _ in range(rounds):
        if able == [0] and not any(times[1:]): # nobody to compare with
            break
        for i in list(able):
            ms = fastest_ms(commands[i], problem)
            if ms is not None:
                times[i].append(ms)
            if ms is None or (i > 0 and len(times[i]) == 1 and times[0] and ms > 3 * times[0][0]):
                able.remove(i)
    return times


def rows_of(problem, names, times, least):
    rows = []
    for name, own in zip(names[1:], times[1:]):
        if times[0] and own:
            (a_low, a_high), (b_low, b_high) = interval(times[0]), interval(own)
            ratio, low, high = b_low / a_low, b_low / a_high, b_high / a_low
            rows.append([name, f"{a_low:.4g}", f"{b_low:.4g}", f"{ratio:.3f}", f"[{low:.3f}, {high:.3f}]",
                         judge(ratio, low, high, least), problem])
    return rows


def main():
    given = arguments()
    names = [given.a, given.b] + given.also
    commands = [command_words(name, given.seconds) for name in names]
    here = os.path.dirname(os.path.abspath(__file__))
    problems = read_problems(given.problems or [f"@{here}/smoke.txt"])
    labels = [f"{chr(ord('A') + i)}" for i in range(len(names))]
    for label, name in zip(labels, names):
        print(f"# {label}: {name}")
    columns = ["what", "a_ms", "ms", "times_a", "interval", "verdict", "problem"]
    layout = "{:4} {:>9} {:>9} {:>8}  {:18} {:14} {}"
    print(layout.format(*columns), flush=True)
    table = []
    for problem in problems:
        for row in rows_of(problem, labels, measure(commands, problem, given.rounds), given.least):
            print(layout.format(*row), flush=True)
            table.append(row)
    if given.csv:
        with open(given.csv, "w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([columns] + [[names[ord(row[0]) - ord("A")]] + row[1:] for row in table])
    if not table:
        sys.exit("nothing was compared")


if __name__ == "__main__":
    main()
