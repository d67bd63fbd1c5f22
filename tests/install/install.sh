#!/bin/sh
# Installs BUILD into an emptied PREFIX and looks whether the promised files are there.
#
#     tests/install/install.sh CMAKE BUILD PREFIX
set -eu
cmake=$1
build=$2
prefix=$3
rm -rf "$prefix"
"$cmake" --install "$build" --prefix "$prefix" >/dev/null
for file in include/aclgrad/acl/acl.h include/aclgrad/aclnn/acl_meta.h include/aclgrad/aclnn/aclnn_base.h \
    include/aclgrad/aclnnop/aclnn_lightning_indexer_grad.h include/aclgrad/aclgrad/aclgrad.h \
    include/aclgrad/opdev/op_errno.h lib/libaclgrad.a lib/libaclgrad.so lib/libaclgrad.so.0 lib/pkgconfig/aclgrad.pc \
    lib/cmake/aclgrad/aclgradConfig.cmake include/aclgrad-compat/securec.h \
    lib/aclgrad/compat/libascendcl.so lib/aclgrad/compat/libnnopbase.so lib/aclgrad/compat/libopapi.so lib/aclgrad/compat/libopapi_math.so lib/aclgrad/compat/libopapi_transformer.so; do
    [ -e "$prefix/$file" ] || {
        echo "not installed: $file"
        exit 1
    }
done
# Nothing that could shadow a real toolkit may lie on a default path.
[ ! -e "$prefix/include/acl" ]
[ -z "$(find "$prefix/lib" -maxdepth 1 -name '*ascendcl*' -o -maxdepth 1 -name '*opapi*')" ]
