#!/bin/sh
# `make coverage`: which lines and branches of src/ and of the command line the short tests run. Prints a table per file
# and writes build-coverage/coverage/{index.html,src.csv,aclgrad.csv,report.txt}.
#
#     tests/coverage.sh           configure, build, test, report
#     tests/coverage.sh report    the report alone, from the counters that are there
#
# What a branch is, and what is left out of the count: docs/coverage.md.
set -eu
cd "$(dirname "$0")/.." || exit 1

build="build-coverage"
out=$build/coverage

run_tests() {
    cmake --preset coverage -DACLGRAD_TESTS=ON >"$build.configure.log" 2>&1 || {
        cat "$build.configure.log"
        exit 1
    }
    rm -f "$build.configure.log"
    cmake --build "$build" -j "$(nproc)"
    find "$build" -name '*.gcda' -delete
    # What is installed, and what emulated CPUs say, runs other objects than these.
    ctest --test-dir "$build" -j "$(nproc)" -L '^(smoke|ci)$' -LE '^(install|qemu|lint)$' --output-on-failure
}

# One pass of gcov over all objects. A line that is compiled several times (a kernel template, once per table and
# element type) counts once, and as run when any of them ran.
read_counters() {
    gcovr --root . --object-directory "$build" --filter 'src/' --filter 'tools/aclgrad/' \
        --exclude-branches-by-pattern '^\s*assert\(' --json "$out/counters.json" "$build"
}

# table NAME FILTER: lines and branches per file, from the counters.
table() {
    gcovr --root . --add-tracefile "$out/counters.json" --filter "$2" --csv "$out/$1.csv"
    awk -F, -v name="$1" '
        function share(covered, total) { return total ? sprintf("%.1f %%", 100 * covered / total) : "-" }
        function row(file, ran, lines, taken, branches) {
            printf "%-48s %6d %8s %6d %8s\n", file, lines, share(ran, lines), branches, share(taken, branches)
        }
        NR == 1 { printf "\n%-48s %6s %8s %6s %8s\n", name, "lines", "run", "branch", "taken"; next }
        {
            row($1, $3, $2, $6, $5)
            lines += $2; ran += $3; branches += $5; taken += $6
        }
        END { row("all of " name, ran, lines, taken, branches) }' "$out/$1.csv"
}

[ "${1-}" = report ] || run_tests
mkdir -p "$out"
read_counters
{
    table src 'src/'
    table aclgrad 'tools/aclgrad/'
} | tee "$out/report.txt"
gcovr --root . --add-tracefile "$out/counters.json" --html-details "$out/index.html"
echo
echo "report: $out/index.html"
