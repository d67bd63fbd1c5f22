#!/bin/sh
# Every public header compiles alone, without a warning, in C11 and C++11, 17 and 20: as "acl/acl.h", as "acl_meta.h" and
# "aclnn_x.h" through the shorter include directories, and twice in one file.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
cc=${CC:-cc} cxx=${CXX:-c++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
flags="-Wall -Wextra -pedantic -Wshadow -Werror -fsyntax-only -I$root/include -I$root/include/aclnn -I$root/include/aclnnop -I$root/include/compat"
failed=0 count=0

compile() { # name of the header as a program writes it
    printf '#include "%s"\n#include "%s"\nint used;\n' "$1" "$1" >"$work/header.c"
    cp "$work/header.c" "$work/header.cpp"
    # shellcheck disable=SC2086
    "$cc" -std=c11 -Wstrict-prototypes $flags "$work/header.c" || failed=1
    for standard in c++11 c++17 c++20; do
        # shellcheck disable=SC2086
        "$cxx" -std=$standard $flags "$work/header.cpp" || failed=1
    done
    count=$((count + 4))
}

for path in $(cd "$root/include" && find . -name '*.h' | sort); do
    compile "${path#./}"
done
for path in "$root"/include/aclnn/*.h "$root"/include/aclnnop/*.h "$root"/include/compat/*.h; do
    compile "$(basename "$path")"
done

# A program that declares the opaque types itself, under the guard that is in use for that, goes on to compile.
cat >"$work/own.cpp" <<'END'
#define ACLNN_META
typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;
typedef struct aclScalar aclScalar;
typedef struct aclIntArray aclIntArray;
typedef struct aclFloatArray aclFloatArray;
typedef struct aclBoolArray aclBoolArray;
typedef struct aclTensorList aclTensorList;
typedef struct aclScalarList aclScalarList;
typedef int aclnnStatus;
#include "aclnnop/aclnn_flash_attention_score.h"
#include "aclnnop/aclnn_lightning_indexer_grad.h"
#include "acl/acl.h"
int main() { auto ret = aclInit(nullptr); return ret == ACL_SUCCESS ? 0 : 1; }
END
# shellcheck disable=SC2086
"$cxx" -std=c++11 $flags "$work/own.cpp" || failed=1
count=$((count + 1))

[ $failed = 0 ] && [ $count -gt 50 ] && echo "$count compilations without a warning"
exit $failed
