#!/bin/sh
# Builds and runs every stage of a tier, goes on after a failure, and ends with one line: "N passed, N failed".
#
#     tests/run.sh short      what `make test` runs
#     tests/run.sh long       what `make test-long` runs
#     tests/run.sh STAGE...   single stages: release asan aarch64 sweeps tsan msan mutation
#
# A stage is a build folder of CMakePresets.json and one run of ctest in it. Counted are the cases inside a test
# program where it reports them (cmocka does), else the program; a stage that does not build counts as one failure.
set -u
cd "$(dirname "$0")/.." || exit 1

jobs=$(nproc)
passed=0
failed=0

say() { printf '\n== %s\n' "$*"; }

# count_log BUILD STATUS: adds what ctest's log of its last run says to the totals. STATUS is ctest's own verdict: when
# it is not 0 and the log tells of no failure, that is one.
count_log() {
    counts=$(awk -f tests/count.awk "$1/Testing/Temporary/LastTest.log" 2>/dev/null) || counts="0 0"
    passed=$((passed + ${counts% *}))
    bad=${counts#* }
    [ "$2" = 0 ] || [ "$bad" != 0 ] || bad=1
    failed=$((failed + bad))
}

# in_build PRESET CTEST-ARGUMENTS...: configure, build, test, count.
in_build() {
    preset=$1
    shift
    build=build
    [ "$preset" = release ] || build=build-$preset
    say "$preset: build"
    if ! { cmake --preset "$preset" -DACLGRAD_TESTS=ON >"$build.configure.log" 2>&1 || {
        cat "$build.configure.log"
        false
    }; } || ! cmake --build "$build" -j "$jobs"; then
        echo "$preset: does not build"
        failed=$((failed + 1))
        return
    fi
    rm -f "$build.configure.log" "$build/Testing/Temporary/LastTest.log"
    say "$preset: test"
    # shellcheck disable=SC2086 # $launcher is a command and its options, or nothing
    ${launcher-} ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$jobs" "$@"
    count_log "$build" $?
}

stage_release() { in_build release -L '^(smoke|ci)$'; }

# Leak detection included. Tests of what is installed and emulated runs say nothing new here.
stage_asan() { in_build asan -L '^(smoke|ci)$' -LE '^(install|qemu|lint|slow)$'; }

# Another architecture has the scalar table only; elsewhere than on x86-64 the release stage has shown it.
stage_aarch64() {
    [ "$(uname -m)" = x86_64 ] || return 0
    in_build aarch64
}

stage_sweeps() { in_build release -L '^long$'; }

# Thread sanitizer maps fixed addresses: without address randomisation where that may be switched off. Its own locks
# do not survive a fork among threads, so the program that does nothing else stays out (the stress tests fork too).
stage_tsan() {
    launcher=
    setarch -R true 2>/dev/null && launcher="setarch -R"
    in_build tsan -L '^(smoke|ci|threads)$' -LE '^(install|qemu|lint|slow|forks)$'
    launcher=
}

stage_msan() { in_build msan -L '^(smoke|ci)$' -LE '^(install|qemu|lint|slow)$'; }

stage_mutation() {
    [ -f tests/mutation/mutate.py ] || return 0
    say "mutation"
    if python3 tests/mutation/mutate.py; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
}

case ${1-short} in
short) set -- release asan aarch64 ;;
long) set -- sweeps tsan msan mutation ;;
esac
for stage; do
    began=$(date +%s)
    "stage_$stage" || failed=$((failed + 1))
    echo "$stage: $(($(date +%s) - began)) s"
done

echo
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
