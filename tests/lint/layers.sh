#!/bin/sh
# The dependency law of src/README.md, by looking at the #include lines: base <- runtime, simd <- kernel <- op;
# operators never include one another; only kernel_isa.c names an instruction set's header; examples and public
# headers include public headers only; file names are unique.
#
#     tests/lint/layers.sh [ROOT]
set -u
cd "${1:-$(dirname "$0")/../..}" || exit 1
status=0

# forbid WHAT PATTERN FILES...: no #include line of the files may match the pattern.
forbid() {
    what=$1
    pattern=$2
    shift 2
    [ "$#" != 0 ] || return 0
    if found=$(grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[\"<]$pattern" /dev/null "$@"); then
        echo "$what:"
        echo "$found"
        status=1
    fi
}

sources() { find "$@" -type f \( -name '*.c' -o -name '*.h' -o -name '*.inc' \) 2>/dev/null; }

# shellcheck disable=SC2046 # file names of this tree hold no spaces
{
    forbid "src/base knows no other layer" '(runtime|simd|kernel|op|acl|aclnn|aclnnop|aclgrad)/' $(sources src/base)
    forbid "src/runtime knows base only" '(simd|kernel|op)/' $(sources src/runtime)
    forbid "src/simd knows base only" '(runtime|kernel|op|acl|aclnn|aclnnop|aclgrad)/' $(sources src/simd)
    forbid "src/kernel knows base and simd only" '(runtime|op|acl|aclnn|aclnnop|aclgrad)/' $(sources src/kernel)
    forbid "only kernel_isa.c includes simd/" 'simd/' \
        $(sources src | grep -vE '^src/simd/|^src/kernel/kernel_isa\.c$')
    forbid "only simd/ includes an instruction set's header" '(imm|x86|arm_|xmm|emm)[a-z0-9_]*\.h' \
        $(sources src include tools examples | grep -v '^src/simd/')
    for op in src/op/*/; do
        others=$(find src/op -mindepth 1 -maxdepth 1 -type d ! -path "${op%/}" -exec basename {} \; | paste -sd '|' -)
        [ -z "$others" ] || forbid "operators never include one another" "op/($others)/" $(sources "$op")
    done
    forbid "public headers know no internals" '(base|runtime|simd|kernel|op)/' $(sources include)
    forbid "examples know no internals" '(base|runtime|simd|kernel|op|\.\.)/' \
        $(sources examples) $(find examples -name '*.cpp' 2>/dev/null)
}

# The headers in include/ repeat names on purpose: forwarding headers of the same name in level2/.
doubles=$(find src tools tests examples -type f \( -name '*.c' -o -name '*.h' -o -name '*.inc' -o -name '*.cpp' \) \
    -exec basename {} \; | sort | uniq -d)
if [ -n "$doubles" ]; then
    echo "file names are unique:"
    echo "$doubles"
    status=1
fi
exit $status
