/*
 * Names of C++ and Rust. C++ names are demangled by libstdc++ if it is installed. Legacy names of
 * Rust are C++ names that end in a hash and contain words for punctuation. Rust v0 names (_R…) are
 * not changed.
 *
 * A C++ name can refer to its own parts, so a few hundred bytes can mean gigabytes of text.
 * Therefore a child process makes the texts.
 */
#include "examples/pmc-names/names.h"

#include <ctype.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define MANGLED_MAX 1024 /* bytes of a symbol */
#define TEXT_MAX    8192 /* bytes of its text */

typedef char *demangle_fn(const char *name, char *buffer, size_t *length, int *status);

static demangle_fn *library(void)
{
    static bool looked;
    static demangle_fn *found;
    void *handle;

    if (looked)
        return found;
    looked = true;
    handle = dlopen("libstdc++.so.6", RTLD_LAZY);
    if (handle)
        *(void **)&found = dlsym(handle, "__cxa_demangle");
    return found;
}

static const struct {
    const char *word, *sign;
} rust_words[] = {
    {"$LT$", "<"},  {"$GT$", ">"},  {"$LP$", "("},  {"$RP$", ")"},   {"$C$", ","},   {"$RF$", "&"},
    {"$BP$", "*"},  {"$u20$", " "}, {"$u27$", "'"}, {"$u5b$", "["},  {"$u5d$", "]"}, {"$u7b$", "{"},
    {"$u7d$", "}"}, {"$u3b$", ";"}, {"$u2b$", "+"}, {"$u22$", "\""}, {"..", "::"},
};

/* A legacy name of Rust ends in "::h" and 16 digits. */
static bool is_rust(const char *name, size_t len)
{
    if (len < 20 || strncmp(name + len - 19, "::h", 3) != 0)
        return false;
    for (size_t i = len - 16; i < len; i++)
        if (!isxdigit((unsigned char)name[i]) || isupper((unsigned char)name[i]))
            return false;
    return true;
}

/* Works in place, because no sign is longer than its word. */
static void rust_clean(char *name)
{
    char *to = name;

    for (const char *from = name; *from;) {
        size_t word = 0, n = sizeof rust_words / sizeof *rust_words;

        while (word < n && strncmp(from, rust_words[word].word, strlen(rust_words[word].word)) != 0)
            word++;
        if (word == n) {
            /* a name that starts with a sign has a "_" before it */
            if (from[0] == '_' && from[1] == '$' && (to == name || to[-1] == ':'))
                from++;
            else
                *to++ = *from++;
            continue;
        }
        to = stpcpy(to, rust_words[word].sign);
        from += strlen(rust_words[word].word);
    }
    *to = '\0';
}

/* Runs in the child: replaces a symbol by its demangled text, or "". */
static size_t text_answer(void *self)
{
    char *made = library()((const char *)child_message, NULL, NULL, &(int){0});
    const char *text = made && strlen(made) < TEXT_MAX ? made : "";
    const size_t n = strlen(text) + 1;

    (void)self;
    memcpy(child_message, text, n);
    free(made);
    return n;
}

char *demangled(const char *symbol)
{
    static struct child child = {.answer = text_answer, .again = true};
    size_t len = strlen(symbol) + 1;
    char *name;

    if (strncmp(symbol, "_Z", 2) != 0 || len > MANGLED_MAX || !library())
        return NULL;
    memcpy(child_message, symbol, len);
    if (child_ask(&child, len) <= 1)
        return NULL;
    name = strdup((const char *)child_message);
    len = name ? strlen(name) : 0;
    if (is_rust(name, len)) {
        name[len - 19] = '\0';
        rust_clean(name);
    }
    return name;
}
