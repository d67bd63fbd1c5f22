// The arrays of aclGetViewShape and its sisters come from this program's operator new[], so that delete[] is right.
#include <cstdio>
#include <cstdlib>
#include <new>

#include "aclnn/acl_meta.h"

static int taken, returned;

void *operator new[](std::size_t bytes)
{
    ++taken;
    void *memory = std::malloc(bytes + 64);
    if (!memory) {
        throw std::bad_alloc();
    }
    return static_cast<char *>(memory) + 64; // not what free() expects
}

void operator delete[](void *memory) noexcept
{
    ++returned;
    std::free(static_cast<char *>(memory) - 64);
}

void operator delete[](void *memory, std::size_t) noexcept
{
    operator delete[](memory);
}

int main()
{
    const int64_t dims[] = {2, 3};
    int64_t *values = nullptr;
    uint64_t count = 0;
    aclTensor *tensor = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, nullptr);
    aclnnStatus (*const questions[])(const aclTensor *, int64_t **,
                                     uint64_t *) = {aclGetViewShape, aclGetStorageShape, aclGetViewStrides};
    for (auto question : questions) {
        if (question(tensor, &values, &count) != 0 || count != 2) {
            std::puts("no answer");
            return 1;
        }
        delete[] values;
    }
    aclDestroyTensor(tensor);
    std::printf("%d arrays taken, %d returned\n", taken, returned);
    return taken == 3 && returned == 3 ? 0 : 1;
}
