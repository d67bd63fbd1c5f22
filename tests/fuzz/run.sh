#!/bin/sh
# Builds the fuzz targets with an engine and runs them, one after the other.
#
#     tests/fuzz/run.sh ENGINE MINUTES [TARGET...]
#
# ENGINE is libfuzzer or afl; MINUTES are those of each target; without a TARGET all are run. The search starts from
# corpus/TARGET and from what earlier runs have left in the build folder (build-fuzz/ or build-fuzz-afl/), under
# found/TARGET. Exit status 1: something was found; the inputs are named at the end.
set -u
cd "$(dirname "$0")/../.." || exit 1

[ "$#" -ge 2 ] || {
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
}
engine=$1
seconds=$(($2 * 60))
shift 2
case $engine in
libfuzzer) build=build-fuzz preset=fuzz ;;
afl) build=build-fuzz-afl preset=fuzz-afl ;;
*)
    echo "$0: engine $engine, want libfuzzer or afl" >&2
    exit 2
    ;;
esac
[ "$#" != 0 ] || set -- problem npy npz safetensors raw recorded msprobe runtime moe moe_companions indexer indexer_forward attention forward_attention
export AFL_QUIET=1 AFL_SKIP_CPUFREQ=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 AFL_NO_AFFINITY=1 AFL_NO_UI=1

# shellcheck disable=SC2046 # one word per target
cmake --preset "$preset" -DACLGRAD_TESTS=ON >/dev/null &&
    cmake --build "$build" --target $(printf 'fuzz_%s ' "$@") || exit 1
bad=$build/found/bad
rm -rf "$bad"
mkdir -p "$bad"

# dictionary FLAG TARGET: the option, where the target has a dictionary.
dictionary() { [ ! -e "tests/fuzz/$2.dict" ] || echo "$1tests/fuzz/$2.dict"; }

run_libfuzzer() {
    mkdir -p "$build/found/$1"
    # shellcheck disable=SC2046 # one option or none
    "$build/tests/fuzz_$1" -max_total_time="$seconds" -rss_limit_mb=2000 -timeout=60 -print_final_stats=1 \
        -artifact_prefix="$bad/$1-" $(dictionary -dict= "$1") "$build/found/$1" "tests/fuzz/corpus/$1"
}

run_afl() {
    # shellcheck disable=SC2046 # two words or none
    afl-fuzz -V "$seconds" -m none -t 5000+ -i "tests/fuzz/corpus/$1" -o "$build/found/$1" $(dictionary '-x ' "$1") \
        -- "$build/tests/fuzz_$1"
    for input in "$build/found/$1"/default/crashes/id* "$build/found/$1"/default/hangs/id*; do
        [ ! -e "$input" ] || cp "$input" "$bad/$1-$(basename "$input" | tr -c 'A-Za-z0-9\n' _)"
    done
}

for target; do
    echo "== $target"
    rm -rf "$build/found/$target/default"
    "run_$engine" "$target"
done
[ -z "$(ls "$bad")" ] || {
    echo "found:"
    ls "$bad"/*
    exit 1
}
