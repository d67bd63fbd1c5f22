#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "support/support.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Small problems too are shared out to all threads: tests are made of them. */
__attribute__((constructor)) static void share_all_work(void)
{
    ag_config_set_least_shared_work(0);
}

enum { CANARY = 0xC5, CANARY_BYTES_CHECKED = 4096 };

struct test_buffer test_buffer_create(size_t bytes, size_t align)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t room = (bytes + page - 1) / page * page + page; /* at least one page of canaries below */
    struct test_buffer buffer = {.bytes = bytes, .page_bytes = room + 2 * page};
    buffer.pages = mmap(NULL, buffer.page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(buffer.pages != MAP_FAILED);
    char *usable = (char *)buffer.pages + page;
    assert_int_equal(mprotect(usable, room, PROT_READ | PROT_WRITE), 0);
    buffer.data = (void *)(((uintptr_t)usable + room - bytes) & ~((uintptr_t)align - 1));
    const size_t below = (size_t)((char *)buffer.data - usable);
    const size_t first = below > CANARY_BYTES_CHECKED ? below - CANARY_BYTES_CHECKED : 0;
    memset(usable + first, CANARY, below - first);
    memset((char *)buffer.data + bytes, CANARY, (size_t)(usable + room - ((char *)buffer.data + bytes)));
    return buffer;
}

void test_buffer_check(const struct test_buffer *buffer)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const unsigned char *usable = (const unsigned char *)buffer->pages + page;
    const unsigned char *data = buffer->data;
    const unsigned char *end = (const unsigned char *)buffer->pages + buffer->page_bytes - page;
    const size_t below = (size_t)(data - usable);
    for (size_t i = 1; i <= below && i <= CANARY_BYTES_CHECKED; ++i) {
        if (data[-(ptrdiff_t)i] != CANARY) {
            fail_msg("a byte was written %zu bytes before the buffer", i);
        }
    }
    for (const unsigned char *byte = data + buffer->bytes; byte < end; ++byte) {
        if (*byte != CANARY) {
            fail_msg("a byte was written behind the buffer");
        }
    }
}

void test_buffer_destroy(struct test_buffer *buffer)
{
    if (buffer->pages) {
        test_buffer_check(buffer);
        munmap(buffer->pages, buffer->page_bytes);
    }
    *buffer = (struct test_buffer){0};
}
