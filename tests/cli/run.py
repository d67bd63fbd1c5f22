#!/usr/bin/env python3
"""Runs one session file: commands, expected output, exit codes.

    run.py BINDIR FILE
    run.py --record BINDIR FILE      writes what the commands print into the file: read it before you believe it

A command is a line "$ ..."; lines "> ..." continue it. The lines behind it, up to the next command, are what it must
print, stdout and stderr together. In them

    ...            on a line of its own stands for any lines, also none
    *** within a line stands for any text
    [3]            on a line of its own is the exit code, when it is not 0

In a .md file only blocks fenced by ```console count; in other files everything does, and lines starting with # before
the first command are comments. Commands run in one empty directory, with BINDIR first in PATH, two threads and
the scalar kernels (so that every machine prints the same digits); $TESTS is the
directory of this script."""
import os
import re
import subprocess
import sys
import tempfile


def session_lines(path):
    """(number, line) of the lines that count; None starts a new block."""
    is_document = path.endswith(".md")
    is_inside = not is_document
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if is_document and line.startswith("```"):
                is_inside = line == "```console"
                yield number, None
            elif is_inside:
                yield number, line


def read_steps(path):
    """A list of [line number, command, expected lines, exit code]."""
    steps = []
    for number, line in session_lines(path):
        if line is None:
            continue
        if line.startswith("$ "):
            steps.append([number, line[2:], [], 0])
        elif steps and line.startswith("> ") and not steps[-1][2]:
            steps[-1][1] += "\n" + line[2:]
        elif steps and re.fullmatch(r"\[\d+\]", line):
            steps[-1][3] = int(line[1:-1])
        elif steps:
            steps[-1][2].append(line)
    for step in steps:
        while step[2] and not step[2][-1].strip():
            step[2].pop()
        step[2] = [line for line in step[2] if not line.startswith("##")] # "## ..." is a comment anywhere
    return steps


def line_matches(expected, got):
    parts = [re.escape(part) for part in expected.rstrip().split("***")]
    return re.fullmatch(".*".join(parts), got.rstrip()) is not None


def matches(expected, got):
    """Lines against lines, "..." standing for any number of them."""
    if not expected:
        return not got
    if expected[0] == "...":
        return any(matches(expected[1:], got[i:]) for i in range(len(got) + 1))
    return bool(got) and line_matches(expected[0], got[0]) and matches(expected[1:], got[1:])


def run(command, directory, environment, stdin=""):
    result = subprocess.run(["/bin/sh", "-c", command], cwd=directory, env=environment, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, input=stdin.encode(), timeout=400)
    text = result.stdout.decode("utf-8", "replace")
    return [line for line in text.split("\n")[:-1]] if text.endswith("\n") else text.split("\n") if text else [], \
        result.returncode


def record(path, steps, results):
    """Writes the file again with each command's output in place of what was there."""
    outputs = {step[0]: (step[1], *result) for step, result in zip(steps, results)}
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")[:-1]
    session = {number for number, line in session_lines(path) if line is not None}
    out, is_output = [], False
    for number, line in enumerate(lines, 1):
        if number in outputs:
            command, got, code = outputs[number]
            out += ["$ " + command.replace("\n", "\n> ")] + got + ([f"[{code}]"] if code else [])
            is_output = True
        elif number not in session or line.startswith("##") or not is_output:
            is_output = is_output and number in session
            out.append(line)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


def environment_of(bindir):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ACLGRAD_")}
    environment.update(PATH=os.path.abspath(bindir) + os.pathsep + os.environ["PATH"], LC_ALL="C", ACLGRAD_THREADS="2",
                       ACLGRAD_ISA="scalar", TESTS=os.path.dirname(os.path.abspath(__file__)))
    return environment


def main():
    is_record = sys.argv[1] == "--record"
    bindir, path = sys.argv[1 + is_record], os.path.abspath(sys.argv[2 + is_record])
    environment = environment_of(bindir)
    steps = read_steps(path)
    if not steps:
        sys.exit(f"{path}: no commands")
    failed, results = 0, []
    with tempfile.TemporaryDirectory() as directory:
        for number, command, expected, code in steps:
            got, got_code = run(command, directory, environment)
            while got and not got[-1].strip():
                got.pop()
            results.append((got, got_code))
            if not is_record and (got_code != code or not matches(expected, got)):
                failed += 1
                print(f"{path}:{number}: $ {command}\n-- want, exit code {code}:")
                print("\n".join(expected))
                print(f"-- got, exit code {got_code}:")
                print("\n".join(got))
    if is_record:
        record(path, steps, results)
    print(f"{len(steps)} commands, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
