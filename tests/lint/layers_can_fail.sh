#!/bin/sh
# Breaks each rule of layers.sh once, in a copy, and wants it to be seen.
set -u
here=$(cd "$(dirname "$0")" && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree/src/base" "$tree/src/runtime" "$tree/src/simd" "$tree/src/kernel" "$tree/src/op/moe" \
    "$tree/src/op/indexer" "$tree/include/acl" "$tree/tools" "$tree/tests" "$tree/examples"
status=0

# want_refused FILE LINE
want_refused() {
    echo "$2" >"$tree/$1"
    if "$here/layers.sh" "$tree" >/dev/null; then
        echo "not seen: $1: $2"
        status=1
    fi
    rm "$tree/$1"
}

"$here/layers.sh" "$tree" || { echo "an empty tree must pass"; status=1; }
want_refused src/base/a.c '#include "runtime/tensor.h"'
want_refused src/base/a.h '#include "acl/acl.h"'
want_refused src/runtime/a.c '#include "op/moe/moe.h"'
want_refused src/simd/a.h '#include "kernel/kernel.h"'
want_refused src/kernel/a.inc '#include "op/moe/moe.h"'
want_refused src/kernel/dispatch.c '#include "simd/simd_avx2.h"'
want_refused src/op/moe/moe.c '#  include <immintrin.h>'
want_refused src/op/moe/moe.c '#include "op/indexer/indexer.h"'
want_refused include/acl/a.h '#include "base/status.h"'
want_refused examples/a.c '#include "base/status.h"'
: >"$tree/src/base/same.h"
want_refused src/runtime/same.h '/* a second file of that name */'
exit $status
