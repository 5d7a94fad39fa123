/*
 * Allocation functions under the names of the linker's --wrap.
 */
#include "tests/unit/memory.h"

#include <errno.h>
#include <stddef.h>

static unsigned left; /* allocations until the one that fails, including it; 0: none fails */
static bool ended;

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
char *__real_strndup(const char *text, size_t len);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);

void memory_fail_at(unsigned n)
{
    ended = false;
    __atomic_store_n(&left, n, __ATOMIC_RELAXED);
}

bool memory_failed(void)
{
    return ended;
}

static bool ends(void)
{
    if (__atomic_load_n(&left, __ATOMIC_RELAXED) == 0 ||
        __atomic_sub_fetch(&left, 1, __ATOMIC_RELAXED) > 0)
        return false;
    ended = true;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t size)
{
    return ends() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return ends() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return ends() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return ends() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t len)
{
    return ends() ? NULL : __real_strndup(text, len);
}
