#!/bin/sh
# `make lint`: format, shell scripts, the house figures, manual page, clang-tidy, cppcheck. Runs all, then says which failed.
#
#     tests/lint/run.sh [CHECK...]
set -u
cd "$(dirname "$0")/../.." || exit 1
failed=

tracked() { git ls-files "$@"; }

check_format() { tracked '*.c' '*.h' '*.inc' '*.cpp' '*.hpp' | xargs clang-format --dry-run -Werror; }
check_scripts() { { tracked '*.sh' && echo .ci/run; } | xargs shellcheck; }
check_layers() { tests/lint/layers.sh && tests/lint/docs.sh; }
check_figures() { tests/lint/figures.sh; }
check_manual() { tracked 'docs/man/*.[1-9]' | xargs -r mandoc -T lint -W warning; }

# Compile commands for clang-tidy and cppcheck come from the release preset.
database() { cmake --preset release -DACLGRAD_TESTS=ON >/dev/null; }
check_tidy() {
    database && tracked 'src/*.c' 'tools/*.c' 'examples/*.c' |
        grep -vE 'kernel_isa|cmake-consumer' | xargs -P "$(nproc)" -n 4 clang-tidy -p build --quiet 2>/dev/null
}
check_cppcheck() {
    database && cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 --project=build/compile_commands.json \
        --file-filter="*src/*" --enable=warning --suppress=preprocessorErrorDirective --suppress=invalidFunctionArg -j "$(nproc)"
}

[ "$#" != 0 ] || set -- format scripts layers figures manual tidy cppcheck
for check; do
    echo "== $check"
    "check_$check" || failed="$failed $check"
done
[ -z "$failed" ] || {
    echo "lint: failed:$failed"
    exit 1
}
echo "lint: clean"
