/*
 * Names of C++ and Rust as in the source, by libiberty. A C++ name can refer to its own parts, so
 * that a few hundred bytes mean gigabytes of text. A child makes the texts.
 */
#include "examples/pmc-names/names.h"

#include <stdlib.h>
#include <string.h>

#define MANGLED_MAX 1024 /* bytes of a symbol */
#define TEXT_MAX    8192 /* bytes of its text */

#ifdef HAS_LIBIBERTY

#define WITH_PARAMETERS 3 /* DMGL_PARAMS | DMGL_ANSI */

/* Distributions have the header in different directories. */
char *rust_demangle(const char *mangled, int options);
char *cplus_demangle_v3(const char *mangled, int options);

/* Runs in the child: replaces a symbol by its demangled text, or "". Legacy names of Rust are C++
 * names too, so Rust is first. */
static size_t text_answer(void *self)
{
    const char *symbol = (const char *)child_message, *text = "";
    char *made = rust_demangle(symbol, 0);
    size_t n;

    (void)self;
    if (!made)
        made = cplus_demangle_v3(symbol, WITH_PARAMETERS);
    if (made && strlen(made) < TEXT_MAX)
        text = made;
    n = strlen(text) + 1;
    memcpy(child_message, text, n);
    free(made);
    return n;
}

char *demangled(const char *symbol)
{
    static struct child child = {.answer = text_answer, .again = true};
    const size_t n = strlen(symbol) + 1;

    if ((strncmp(symbol, "_Z", 2) != 0 && strncmp(symbol, "_R", 2) != 0) || n > MANGLED_MAX)
        return NULL;
    memcpy(child_message, symbol, n);
    return child_ask(&child, n) > 1 ? strdup((const char *)child_message) : NULL;
}

#else

char *demangled(const char *symbol)
{
    (void)symbol;
    return NULL;
}

#endif
