#!/bin/sh
# Shows that the number of threads changes no bit, at the sizes of the benchmarks.
#
#     bench/same_bits.sh build/bin/aclgrad [FILE...]      default: bench/models.txt, bench/edge.txt
#
# Runs each problem with 1, 2, 3 and 7 threads and compares the files of all outputs, byte by byte. A minute or more per problem.
set -eu

here=$(dirname "$0")
command=$1
shift
[ $# -gt 0 ] || set -- "$here/models.txt" "$here/edge.txt"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

status=0
sed 's/#.*//; s/ *$//' "$@" | grep . >"$work/problems"
while read -r problem; do
    rm -rf "$work"/of_*
    for threads in 1 2 3 7; do
        "$command" -q --threads "$threads" run -o "$work/of_$threads" "$problem" >"$work/log" 2>&1 </dev/null ||
            { cat "$work/log"; exit 1; }
    done
    for threads in 2 3 7; do
        if ! diff -rq -x call.json "$work/of_1" "$work/of_$threads"; then
            echo "$problem: other bits with $threads threads than with one" >&2
            status=1
        fi
    done
    [ $status != 0 ] || echo "same bits with 1, 2, 3 and 7 threads: $problem ($(find "$work/of_1" -name '*.npy' | wc -l) outputs)"
done <"$work/problems"
exit $status
