#!/usr/bin/env python3
"""Runs the examples of one page.

    page.py [--none] BINDIR PREFIX PAGE
    page.py --record BINDIR PREFIX PAGE    writes what the commands print into the page: read it before you believe it

The word (or two) behind the opening fence says what a block is:

    c              a whole program: compiled, run; the next block, when it is a ```text, is what it must print
    c loop         the loop that an operator equals: compiled into loop_<page>.c beside this script, run against the library
    LANGUAGE NAME  a file of that name, for the commands of the page (c, cpp, cmake, json, python, sh)
    console        commands and what they print, as tests/cli/run.py has it: scalar kernels, two threads, one directory
    sh             commands for people: only their syntax, and that the tasks of make they name exist, is checked
    text, nothing  not run

Commands find BINDIR in PATH, an installed library in PREFIX (PKG_CONFIG_PATH, LD_LIBRARY_PATH, CMAKE_PREFIX_PATH) and the
project's examples/. A page without anything that runs is a failure; with --none, one that has something."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, os.pardir, "cli"))
import run as session  # noqa: E402

WARNINGS = "-std=c11 -Wall -Wextra -pedantic -Werror"
LANGUAGES = {"c", "cpp", "cmake", "json", "python", "sh"}


def read_blocks(path):
    """(line number of the fence, words behind it, lines) of each fenced block."""
    blocks, block = [], None
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            line = line.rstrip("\n")
            if line.startswith("```"):
                if block is None:
                    block = (number, line[3:].split(), [])
                else:
                    blocks.append(block)
                    block = None
            elif block:
                block[2].append(line)
    if block:
        sys.exit(f"{path}:{block[0]}: a block that does not end")
    return blocks


class Page:
    def __init__(self, path, directory, environment):
        self.path, self.directory, self.environment = path, directory, environment
        self.stem = os.path.splitext(os.path.basename(path))[0]
        self.failed = self.ran = 0

    def fail(self, line, text):
        self.failed += 1
        print(f"{self.path}:{line}: {text}")

    def shell(self, command):
        return session.run(command, self.directory, self.environment)

    def write(self, name, lines):
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def compile_and_run(self, line, source, options, expected):
        self.ran += 1
        got, code = self.shell(f"${{CC:-cc}} {options} {source} $(pkg-config --cflags --libs aclgrad) -lm -o program")
        if code == 0:
            got, code = self.shell("./program")
        if code != 0 or (expected is not None and not session.matches(expected, got)):
            self.fail(line, "\n".join([f"ends with {code}, prints"] + got + ["-- want"] + (expected or [])))

    def program(self, line, lines, follower):
        if not any("int main(" in text for text in lines):
            self.fail(line, "neither a whole program nor marked as something else")
            return
        self.write("program.c", lines)
        expected = follower[2] if follower and follower[1] == ["text"] else None
        self.compile_and_run(line, "program.c", WARNINGS, expected)

    def loop(self, line, lines):
        self.write("loop.inc", lines)
        harness = os.path.join(HERE, "loop_" + self.stem.replace("-", "_") + ".c")
        options = "-std=c11 -Wall -Wextra -Werror -ffp-contract=off -I."
        self.compile_and_run(line, harness, options, None)

    def commands(self, line, lines):
        _, code = session.run("sh -n", self.directory, self.environment, "\n".join(lines))
        if code != 0:
            self.fail(line, "is no shell script")
        with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
            tasks = set(re.findall(r"^([a-z-]+):", file.read(), re.M))
        for task in re.findall(r"^make ([a-z-]+)", "\n".join(lines), re.M):
            if task not in tasks:
                self.fail(line, f"make {task}: there is no such task")

    def file(self, line, name, lines):
        self.write(name, lines)
        user = "cmake " if name == "CMakeLists.txt" else name
        if not any(user in step[1] for step in session.read_steps(self.path)):
            self.fail(line, f"no command of the page uses {name}")

    def block(self, block, follower):
        line, words, lines = block
        if words == ["c"]:
            self.program(line, lines, follower)
        elif words == ["c", "loop"]:
            self.loop(line, lines)
        elif words == ["sh"]:
            self.commands(line, lines)
        elif len(words) == 2 and words[0] in LANGUAGES and "." in words[1]:
            self.file(line, words[1], lines)
        elif words not in ([], ["text"], ["console"]):
            self.fail(line, f"nobody knows what ```{' '.join(words)} is")

    def sessions(self, is_record):
        steps, results = session.read_steps(self.path), []
        for number, command, expected, code in steps:
            self.ran += 1
            got, got_code = self.shell(command)
            while got and not got[-1].strip():
                got.pop()
            results.append((got, got_code))
            if not is_record and (got_code != code or not session.matches(expected, got)):
                self.fail(number, "\n".join([f"$ {command}", f"-- want, exit code {code}:"] + expected +
                                            [f"-- got, exit code {got_code}:"] + got))
        if is_record and steps:
            session.record(self.path, steps, results)


def environment_of(bindir, prefix):
    environment = session.environment_of(bindir)
    environment.update(PKG_CONFIG_PATH=os.path.join(prefix, "lib", "pkgconfig"), CMAKE_PREFIX_PATH=prefix,
                       LD_LIBRARY_PATH=os.path.join(prefix, "lib"))
    return environment


def main():
    arguments = sys.argv[1:]
    option = arguments.pop(0) if arguments[0].startswith("--") else None
    bindir, prefix, path = [os.path.abspath(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as directory:
        os.symlink(os.path.join(ROOT, "examples"), os.path.join(directory, "examples"))
        page = Page(path, directory, environment_of(bindir, prefix))
        blocks = read_blocks(path)
        for block, follower in zip(blocks, blocks[1:] + [None]):
            page.block(block, follower)
        page.sessions(option == "--record")
    if page.ran == 0 and option != "--none":
        page.fail(1, "no block that runs")
    if page.ran > 0 and option == "--none":
        page.fail(1, "has examples; the list of pages without them is in tests/docs/CMakeLists.txt")
    print(f"{page.ran} examples, {page.failed} failed")
    sys.exit(1 if page.failed else 0)


if __name__ == "__main__":
    main()
