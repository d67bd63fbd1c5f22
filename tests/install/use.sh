#!/bin/sh
# Builds and runs programs against an installed prefix, with nothing but what is there.
#
#     tests/install/use.sh CASE PREFIX WORK
set -eu
case=$1
prefix=$2
work=$3
here=$(cd "$(dirname "$0")" && pwd)
examples=$here/../../examples
CC=${CC:-cc}
CXX=${CXX:-c++}
warnings="-Wall -Wextra -pedantic -Werror"
rm -rf "$work"
mkdir -p "$work"

export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" LD_LIBRARY_PATH="$prefix/lib"
flags() { pkg-config "$@" aclgrad; }

# expect PROGRAM EXPECTED: the output, byte for byte.
expect() { "$1" | diff "$2" - && echo "as expected: $1"; }

# needs PROGRAM LIBRARY: libaclgrad.so.0 is a needed library of the program, LIBRARY is not.
needs() {
    readelf -d "$1" >"$work/dynamic"
    grep -q 'NEEDED.*\[libaclgrad\.so\.0\]' "$work/dynamic"
    if grep "NEEDED.*$2" "$work/dynamic"; then
        exit 1
    fi
}

# shellcheck disable=SC2046,SC2086 # flags are split on purpose
compile_c() {
    out=$1
    shift
    $CC -std=c11 $warnings "$examples/$out.c" $(flags --cflags) "$@" -o "$work/$out"
}
# shellcheck disable=SC2046,SC2086
compile_cxx() {
    out=$1
    shift
    $CXX -std=c++11 $warnings "$examples/$out.cpp" $(flags --cflags) "$@" -o "$work/$out"
}

# shellcheck disable=SC2046
stand_ins() {
    libraries="-L$(flags --variable=compat_libdir) -L$prefix/lib -lascendcl -lnnopbase"
    for program in $programs; do
        # shellcheck disable=SC2086
        case $program in
        light*) "$1" "$program" $libraries -lopapi ;;
        *) "$1" "$program" $libraries -lopapi_math -lopapi_transformer ;;
        esac
        needs "$work/$program" '\(ascendcl\|nnopbase\|opapi\)'
        expect "$work/$program" "$examples/$program.expected"
    done
}

programs="lightning_indexer_grad flash_attention_unpadding_score_grad_v3 moe_token_unpermute_with_ep_grad"
programs=$(for program in $programs; do [ ! -e "$examples/$program.c" ] || echo "$program"; done)

case $case in
headers) # every header alone, in every language it is for
    cd "$prefix/include/aclgrad"
    find . -name '*.h' | sed 's,^\./,,' | while read -r header; do
        for standard in c11 c++11 c++17 c++20; do
            language=c
            [ "$standard" = c11 ] || language=c++
            # shellcheck disable=SC2046,SC2086
            printf '#include "%s"\n#include "%s"\nint main(void) { return 0; }\n' "$header" "$header" |
                $([ $language = c ] && echo "$CC" || echo "$CXX") -x $language -std=$standard $warnings \
                    $(flags --cflags) -fsyntax-only - || { echo "$header: $standard"; exit 1; }
        done
    done
    # The three ways programs write an operator's header.
    for header in aclnnop/aclnn_lightning_indexer_grad.h aclnn_lightning_indexer_grad.h acl_meta.h aclnn/acl_meta.h acl/acl.h; do
        # shellcheck disable=SC2046
        printf '#include "%s"\n' "$header" | $CC -x c -std=c11 $(flags --cflags) -fsyntax-only -
    done
    ;;
pkg_config_c | pkg_config_cxx)
    for program in $programs; do
        # shellcheck disable=SC2046
        compile_"${case#pkg_config_}" "$program" $(flags --libs)
        needs "$work/$program" 'nothing'
        expect "$work/$program" "$examples/$program.expected"
    done
    ;;
pkg_config_static)
    unset LD_LIBRARY_PATH
    for program in $programs; do
        # shellcheck disable=SC2046
        compile_c "$program" $(flags --static --libs | sed 's/-laclgrad/-l:libaclgrad.a/')
        if readelf -d "$work/$program" | grep 'NEEDED.*aclgrad'; then
            exit 1
        fi
        expect "$work/$program" "$examples/$program.expected"
    done
    ;;
stand_ins_c) stand_ins compile_c ;;
stand_ins_cxx) stand_ins compile_cxx ;;
cmake_package)
    ${CMAKE:-cmake} -G "${GENERATOR:-Unix Makefiles}" -S "$examples/cmake-consumer" -B "$work/build" \
        -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" || {
        cat "$work/configure.log"
        exit 1
    }
    ${CMAKE:-cmake} --build "$work/build"
    unset LD_LIBRARY_PATH
    for variant in shared static; do
        expect "$work/build/consumer_$variant" "$examples/cmake-consumer/consumer.expected"
    done
    ;;
compat) # securec.h is there for those who ask for it, and for nobody else
    printf '#include "securec.h"\nint main(void) { char to[4]; return memset_s(to, sizeof to, 0, 4); }\n' >"$work/securec.c"
    cp "$work/securec.c" "$work/securec.cpp"
    include=$(flags --variable=compat_includedir)
    # shellcheck disable=SC2046,SC2086
    {
        $CC -std=c11 $warnings "$work/securec.c" $(flags --cflags) -I"$include" -o "$work/securec_c"
        $CXX -std=c++11 $warnings "$work/securec.cpp" $(flags --cflags) -I"$include" -o "$work/securec_cxx"
        if $CC "$work/securec.c" $(flags --cflags) -fsyntax-only 2>/dev/null; then
            exit 1
        fi
    }
    "$work/securec_c"
    "$work/securec_cxx"
    ;;
moved) # the prefix may be moved as a whole
    cp -R "$prefix" "$work/elsewhere"
    export PKG_CONFIG_PATH="$work/elsewhere/lib/pkgconfig" LD_LIBRARY_PATH="$work/elsewhere/lib"
    for program in $programs; do
        # shellcheck disable=SC2046
        compile_c "$program" $(flags --cflags --libs)
        expect "$work/$program" "$examples/$program.expected"
    done
    [ "$(flags --cflags | grep -cF "$prefix/")" = 0 ]
    ;;
*)
    echo "unknown case $case"
    exit 2
    ;;
esac
