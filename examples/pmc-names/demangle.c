/*
 * Names of C++ and Rust. The C++ library's own demangler is taken where that library is installed;
 * Rust's older names are C++ names with a hash behind and words for signs. Rust's newer ones (_R…)
 * stay as they are.
 *
 * A C++ name may refer to its own parts, so that a few hundred bytes stand for gigabytes of text.
 * A child of this process makes the texts: a name that costs too much ends the child alone.
 */
#include "examples/pmc-names/names.h"

#include <ctype.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANGLED_MAX  1024   /* bytes of a symbol */
#define TEXT_MAX     8192   /* bytes of its text */
#define NAME_US      100000 /* of a processor, for one name: at the most some MiB of text */
#define CHILDREN_MAX 20     /* after so many C++ names stay as they are */

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

/* "…::h" and 16 digits. */
static bool is_rust(const char *name, size_t len)
{
    if (len < 20 || strncmp(name + len - 19, "::h", 3) != 0)
        return false;
    for (size_t i = len - 16; i < len; i++)
        if (!isxdigit((unsigned char)name[i]) || isupper((unsigned char)name[i]))
            return false;
    return true;
}

/* In place: no sign is longer than its word. */
static void rust_clean(char *name)
{
    char *to = name;

    for (const char *from = name; *from;) {
        size_t word = 0, n = sizeof rust_words / sizeof *rust_words;

        while (word < n && strncmp(from, rust_words[word].word, strlen(rust_words[word].word)) != 0)
            word++;
        if (word == n) {
            /* what begins with a sign has this before it */
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

/* In the child. A message is a text with its NUL: "" if there is none. */
static void serve(int socket)
{
    const struct itimerval limit = {.it_value.tv_usec = NAME_US};
    char symbol[MANGLED_MAX + 1];

    signal(SIGPROF, SIG_DFL);
    while (recv(socket, symbol, sizeof symbol, 0) > 0) {
        const char *text;
        char *made;
        int status;

        setitimer(ITIMER_PROF, &limit, NULL);
        made = library()(symbol, NULL, NULL, &status);
        text = made && strlen(made) < TEXT_MAX ? made : "";
        send(socket, text, strlen(text) + 1, MSG_NOSIGNAL);
        free(made);
    }
    _exit(0);
}

static struct {
    int socket;
    pid_t pid; /* 0: there is none now */
    unsigned begun;
} child;

static bool child_begin(void)
{
    int ends[2];

    if (child.begun == CHILDREN_MAX ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return false;
    child.begun++;
    child.pid = fork();
    if (child.pid == 0) {
        close(ends[0]); /* it ends with its parent */
        serve(ends[1]);
    }
    close(ends[1]);
    child.socket = ends[0];
    if (child.pid > 0)
        return true;
    child.pid = 0;
    close(ends[0]);
    return false;
}

static ssize_t child_ask(const char *symbol, char *text)
{
    ssize_t n = send(child.socket, symbol, strlen(symbol) + 1, MSG_NOSIGNAL);

    n = n > 0 ? recv(child.socket, text, TEXT_MAX, 0) : n;
    if (n > 0)
        return n;
    close(child.socket);
    waitpid(child.pid, NULL, 0);
    child.pid = 0;
    return n;
}

char *demangled(const char *symbol)
{
    char name[TEXT_MAX];
    size_t len;

    if (strncmp(symbol, "_Z", 2) != 0 || strlen(symbol) > MANGLED_MAX || !library() ||
        (!child.pid && !child_begin()) || child_ask(symbol, name) <= 0 || !*name)
        return NULL;
    len = strlen(name);
    if (is_rust(name, len)) {
        name[len - 19] = '\0';
        rust_clean(name);
    }
    return strdup(name);
}
