#!/usr/bin/env python3
"""Changes one line of the library at a time and asks whether a test notices.

    tests/mutation/mutate.py                 all of mutations.txt (about 25 minutes on 2 CPUs)
    tests/mutation/mutate.py --only moe      those whose group, file or description contains "moe"
    tests/mutation/mutate.py --check         only: does every mutation still apply, exactly once?

The tree is copied, built once (debug, -O1) and its tests are run unchanged; then each mutation in turn is applied to the
copy, the tests of its group are rebuilt and run, the quickest first, and the first that fails kills it. A mutant that
does not build is a mistake in the list. Exit status: 0 when every mutant is dead or explained in SURVIVORS.md.
"""
import argparse
import concurrent.futures
import os
import pathlib
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
UNCHANGED_TIMEOUT_S = 900  # for a test of the unchanged tree; a mutant gets ten times what that took, and 30 s

# The test programs of a group, as tests/<folder>/<name>.
GROUPS = {
    "moe": re.compile(r"/test_(moe|sweep_moe)"),
    "indexer": re.compile(r"/test_(indexer|sweep_indexer)"),
    "attention": re.compile(r"/test_(attention|sweep_attention)"),
    "forward": re.compile(r"/test_(attention_forward|attention_differences|attention_statistics|softmax)"),
    "base": re.compile(r"^unit/|^kernel/test_(exp|row|panel)|^api/test_acl_|^long/test_(stress|allocation)"),
}


class Mutation:
    def __init__(self, group, path, what):
        self.group, self.path, self.what = group, path, what
        self.old, self.new = [], []

    def apply_to(self, text):
        """The mutated text; None unless the old lines occur exactly once."""
        old = "\n".join(self.old)
        return text.replace(old, "\n".join(self.new)) if text.count(old) == 1 else None


def read_list():
    """[group] file: description, then "- " lines of old text and "+ " lines of new text."""
    mutations = []
    for number, line in enumerate((HERE / "mutations.txt").read_text().splitlines(), 1):
        head = re.fullmatch(r"\[(\w+)\] (\S+): (.*)", line)
        if head:
            mutations.append(Mutation(*head.groups()))
        elif line.startswith("- "):
            mutations[-1].old.append(line[2:])
        elif line.startswith("+"):
            mutations[-1].new.append(line[2:])
        elif line and not line.startswith("#"):
            sys.exit(f"mutations.txt:{number}: not understood: {line}")
    return mutations


def stale(mutations):
    return [m for m in mutations if m.apply_to((ROOT / m.path).read_text()) is None]


class Tree:
    """A copy of the source tree and its build."""

    def __init__(self, base, number):
        self.path = base / f"tree{number}"
        self.build = self.path / "build"
        shutil.copytree(ROOT, self.path, symlinks=True,
                        ignore=shutil.ignore_patterns("build", "build-*", ".git", ".cache"))
        lists = self.path / "src/CMakeLists.txt"  # kernels are always -O3; mutants need not be fast
        lists.write_text(lists.read_text().replace("PRIVATE -O3", "PRIVATE -O1"))
        # A mutant may leave a variable unused: that alone must not stop it.
        self.run(["cmake", "-S", self.path, "-B", self.build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
                  "-DCMAKE_C_FLAGS_DEBUG=-O1", "-DACLGRAD_TOOLS=OFF",
                  "-DACLGRAD_WERROR=OFF"], check=True)

    @staticmethod
    def run(command, **options):
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)

    def make(self, jobs, *targets):
        return self.run(["ninja", "-C", self.build, f"-j{jobs}", *targets])

    def passes(self, program, timeout_s):
        try:
            return self.run([self.build / "tests" / program], timeout=timeout_s, cwd=self.build,
                            env=dict(os.environ, ACLGRAD_TEST_EFFORT="3")).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def is_slow(path):
    """By the labels in its first line; a long one with a short version is not."""
    labels = set(path.read_text().splitlines()[0].replace("*/", "").split())
    return "slow" in labels or ("long" in labels and "short" not in labels)


def find_tests(groups):
    tests = sorted(f"{p.parent.name}/{p.stem}" for p in (ROOT / "tests").glob("*/test_*.c") if not is_slow(p))
    return [t for t in tests if any(GROUPS[g].search("/" + t if g != "base" else t) for g in groups)]


def program(test):
    return test.split("/")[1]


def measure(tree, tests):
    """Seconds of each test of the unchanged tree, all of which must pass."""
    seconds = {}
    for test in tests:
        began = time.monotonic()
        if not tree.passes(program(test), UNCHANGED_TIMEOUT_S):
            sys.exit(f"{test} fails before anything is changed")
        seconds[test] = time.monotonic() - began
    return seconds


def judge(tree, mutation, tests, seconds):
    """What became of the mutant: (verdict, how)."""
    path = tree.path / mutation.path
    original = path.read_text()
    path.write_text(mutation.apply_to(original))
    try:
        for test in tests:
            built = tree.make(1, program(test))
            if built.returncode != 0:
                return "DOES NOT BUILD", next((l for l in built.stdout.splitlines() if "error:" in l), "")
            if not tree.passes(program(test), 30 + 10 * seconds[test]):
                return "killed", test
        return "SURVIVED", ""
    finally:
        path.write_text(original)


def explained():
    """The descriptions that SURVIVORS.md explains, one per heading."""
    path = HERE / "SURVIVORS.md"
    return set(re.findall(r"^## (.*)$", path.read_text(), re.M)) if path.exists() else set()


def run_all(mutations, workers):
    base = pathlib.Path(tempfile.mkdtemp(prefix="aclgrad-mutation-"))
    try:
        tests = find_tests({m.group for m in mutations})
        trees = [Tree(base, i) for i in range(workers)]
        free = queue.Queue()
        for tree in trees:
            built = tree.make(os.cpu_count(), *map(program, tests))
            if built.returncode != 0:
                sys.exit(built.stdout[-3000:])
            free.put(tree)
        seconds = measure(trees[0], tests)
        tests.sort(key=seconds.get)

        def work(mutation):
            tree = free.get()
            began = time.monotonic()
            mine = [t for t in tests if t in find_tests({mutation.group})]
            verdict, how = judge(tree, mutation, mine, seconds)
            free.put(tree)
            print(f"{verdict:9} {time.monotonic() - began:5.0f} s  [{mutation.group}] {mutation.what}"
                  f"  {how}", flush=True)
            return verdict

        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, mutations))
    finally:
        shutil.rmtree(base, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description="Mutation test of the library; see the head of this file.")
    parser.add_argument("--only", default="", help="text in a mutation's group, file or description")
    parser.add_argument("--check", action="store_true", help="only check that every mutation applies")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="mutants at a time")
    options = parser.parse_args()
    mutations = [m for m in read_list() if options.only in f"[{m.group}] {m.path}: {m.what}"]
    if not mutations:
        sys.exit(f"no mutation matches \"{options.only}\"")
    gone = stale(mutations)
    for m in gone:
        print(f"does not apply exactly once: [{m.group}] {m.path}: {m.what}")
    if gone or options.check:
        print(f"{len(mutations)} mutations, {len(gone)} stale")
        return 1 if gone else 0
    verdicts = run_all(mutations, options.workers)
    known = explained()
    alive = [m.what for m, v in zip(mutations, verdicts) if v != "killed"]
    open_cases = [what for what in alive if what not in known]
    print(f"{len(mutations)} mutants: {len(mutations) - len(alive)} killed, {len(alive) - len(open_cases)} explained in"
          f" SURVIVORS.md, {len(open_cases)} open")
    for what in open_cases:
        print(f"open: {what}")
    return 1 if open_cases else 0


if __name__ == "__main__":
    sys.exit(main())
