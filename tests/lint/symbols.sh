#!/bin/sh
# What the built libraries show: the shared one exactly src/exports.txt; each kernel_isa object exactly one symbol;
# the static one no global outside our prefixes and the API's.
#
#     tests/lint/symbols.sh BUILD
set -u
cd "$(dirname "$0")/../.." || exit 1
build=$1
status=0
fail() {
    echo "$*"
    status=1
}
# Names of the defined global symbols of a file, sorted.
defined() { nm -g --defined-only "$@" | awk 'NF == 3 && $2 != "w" { print $3 }' | LC_ALL=C sort -u; }

wanted=$(grep -E '^[A-Za-z]' src/exports.txt | LC_ALL=C sort -u)
shown=$(defined -D "$build/lib/libaclgrad.so")
[ -n "$shown" ] || fail "libaclgrad.so shows nothing"
if [ "$wanted" != "$shown" ]; then
    fail "libaclgrad.so and src/exports.txt differ (<: only in exports.txt, >: only in the library):"
    work=$(mktemp -d)
    echo "$wanted" >"$work/wanted"
    echo "$shown" >"$work/shown"
    diff "$work/wanted" "$work/shown" | grep '^[<>]'
    rm -rf "$work"
fi

objects=$(find "$build/src/CMakeFiles" -name 'kernel_isa.c.o')
[ -n "$objects" ] || fail "no kernel_isa object in $build"
for object in $objects; do
    [ "$(defined "$object" | wc -l)" = 1 ] || fail "$object: want one symbol, got: $(defined "$object" | paste -sd ' ')"
done

foreign=$(defined "$build/lib/libaclgrad.a" | grep -vE '^(ag|indexer|attention|moe)_|^acl|^Acl')
[ -z "$foreign" ] || fail "libaclgrad.a: globals without our prefix: $(echo "$foreign" | paste -sd ' ')"
exit $status
