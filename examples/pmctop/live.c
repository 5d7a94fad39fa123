/*
 * Live mode: `counts` is read again after each interval; keys change how the present reading is
 * shown.
 */
#include "core/base/clock.h"
#include "examples/pmctop/top.h"

#include <curses.h>
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    KEY_ESCAPE = 27,
    KEY_DELETE = 127,
    KEY_CTRL_L = 'L' & 31,
    KEY_CTRL_U = 'U' & 31
};

bool interval_parse(const char *text, double *seconds)
{
    char *end;
    const double value = strtod(text, &end);

    if (end == text || *end || !(value >= 0.1 && value <= 86400))
        return false;
    *seconds = value;
    return true;
}

/* ---- prompts ---- */

static bool arrange(struct live *live)
{
    return model_arrange(&live->model) &&
           (rows_arrange(&live->rows, &live->model.choice) || tree_no_memory(live->model.tree));
}

static void prompt_begin(struct live *live, enum prompt prompt, const char *text)
{
    live->prompt = prompt;
    snprintf(live->typed, sizeof live->typed, "%s", text);
}

/* Called at Enter: applies a new interval. A filter applies while it is typed. */
static void prompt_end(struct live *live)
{
    if (live->prompt == PROMPT_INTERVAL && *live->typed &&
        !interval_parse(live->typed, &live->interval))
        live->message = "give " INTERVAL_RANGE;
    live->prompt = PROMPT_NONE;
}

static void prompt_edit(struct live *live, int key)
{
    const size_t len = strlen(live->typed);

    if (key == KEY_CTRL_U)
        live->typed[0] = '\0';
    else if ((key == KEY_BACKSPACE || key == KEY_DELETE || key == '\b') && len)
        live->typed[len - 1] = '\0';
    else if (key >= ' ' && key < KEY_DELETE && len + 1 < sizeof live->typed)
        memcpy(live->typed + len, (char[]){(char)key, '\0'}, 2);
}

static bool prompt_key(struct live *live, int key)
{
    const enum prompt prompt = live->prompt;

    if (key == '\n' || key == '\r' || key == KEY_ENTER) {
        prompt_end(live);
    } else if (key == KEY_ESCAPE) {
        live->prompt = PROMPT_NONE;
        live->typed[0] = '\0';
    } else {
        prompt_edit(live, key);
    }
    if (prompt != PROMPT_FILTER)
        return true;
    strcpy(live->model.choice.filter, live->typed);
    return arrange(live);
}

/* ---- keys ---- */

static void scroll_by(struct live *live, bool down, size_t lines)
{
    size_t *top = &live->top[live->page];

    if (down)
        *top += lines; /* drawing limits it to the last page */
    else
        *top = *top > lines ? *top - lines : 0;
}

static bool scroll_key(struct live *live, int key)
{
    switch (key) {
    case KEY_UP:
    case 'k':
        scroll_by(live, false, 1);
        return true;
    case KEY_DOWN:
    case 'j':
        scroll_by(live, true, 1);
        return true;
    case KEY_PPAGE:
        scroll_by(live, false, live->body);
        return true;
    case KEY_NPAGE:
        scroll_by(live, true, live->body);
        return true;
    case KEY_HOME:
        live->top[live->page] = 0;
        return true;
    case KEY_END:
        scroll_by(live, true, SIZE_MAX / 4);
        return true;
    default:
        return false;
    }
}

/* Reads info/rows again, if its page is visible. */
static bool rows_again(struct live *live)
{
    return live->page != PAGE_ROWS ||
           rows_read(&live->rows, live->model.tree, &live->model.choice) ||
           tree_no_memory(live->model.tree);
}

static bool choice_key(struct live *live, int key)
{
    struct choice *choice = &live->model.choice;

    switch (key) {
    case 'r':
        choice->sort = SORT_RATE;
        break;
    case 'c':
        choice->sort = SORT_COUNT;
        break;
    case 'n':
        choice->sort = SORT_NAME;
        break;
    case 'R':
        choice->reversed = !choice->reversed;
        break;
    case 'i':
        choice->busy_only = !choice->busy_only;
        break;
    case 't':
        choice->targets = !choice->targets;
        for (size_t i = 0; i < live->model.now.pmcs.n; i++)
            live->model.now.pmcs.items[i].is_read = false;
        break;
    default:
        return true;
    }
    return arrange(live);
}

static bool help_key(struct live *live, int key)
{
    if (key == 'h' || key == '?' || key == 'q' || key == KEY_ESCAPE)
        live->page = live->page_before_help;
    return true;
}

static bool view_key(struct live *live, int key)
{
    switch (key) {
    case 'h':
    case '?':
        live->page_before_help = live->page;
        live->page = PAGE_HELP;
        return true;
    case '\t':
        live->page = live->page == PAGE_PMCS ? PAGE_ROWS : PAGE_PMCS;
        return rows_again(live);
    case 'p':
    case ' ':
        live->paused = !live->paused;
        return true;
    case '/':
        prompt_begin(live, PROMPT_FILTER, live->model.choice.filter);
        return true;
    case 'd':
        prompt_begin(live, PROMPT_INTERVAL, "");
        return true;
    case KEY_CTRL_L:
        clearok(curscr, TRUE);
        return true;
    case 'q':
        live->ended = true;
        return true;
    default:
        return choice_key(live, key);
    }
}

/* Handles a key. After a resize curses has the new size, and the next drawing uses it. */
static bool key_take(struct live *live, int key)
{
    if (key == KEY_RESIZE)
        return true;
    live->message = NULL;
    if (live->prompt != PROMPT_NONE)
        return prompt_key(live, key);
    if (scroll_key(live, key))
        return true;
    return live->page == PAGE_HELP ? help_key(live, key) : view_key(live, key);
}

/* ---- the loop ---- */

enum waited {
    WAITED_TIME,
    WAITED_KEY,
    WAITED_END
};

/* Waits for a key, and unless paused at most until this time (CLOCK_MONOTONIC). Returns WAITED_END
 * if the terminal has disappeared. */
static enum waited wait_key(const struct live *live, uint64_t until_ns, int *key)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    const uint64_t now_ns = monotonic_ns();
    const int left_ms = now_ns < until_ns ? (int)((until_ns - now_ns + 999999) / 1000000) : 0;
    int ready;

    *key = getch(); /* a key that curses has already read */
    if (*key != ERR)
        return WAITED_KEY;
    ready = poll(&input, 1, live->paused ? -1 : left_ms);
    if (ready == 0)
        return WAITED_TIME;
    *key = getch();
    if (*key != ERR)
        return WAITED_KEY;
    return ready < 0 && errno == EINTR ? WAITED_TIME : WAITED_END;
}

static bool read_all(struct live *live)
{
    return model_read(&live->model) && rows_again(live);
}

static uint64_t next_ns(const struct live *live)
{
    return live->model.now.at_ns + (uint64_t)(live->interval * 1e9);
}

/* Returns false if the tree cannot be read; tree->trouble has the reason. */
static bool live_loop(struct live *live, unsigned long limit)
{
    unsigned long readings = 0;
    int key;

    while (!live->ended) {
        if (!readings || (!live->paused && monotonic_ns() >= next_ns(live))) {
            if (limit && readings == limit)
                return true;
            if (!read_all(live))
                return false;
            readings++;
        }
        screen_draw(live);
        switch (wait_key(live, next_ns(live), &key)) {
        case WAITED_TIME:
            break;
        case WAITED_KEY:
            if (!key_take(live, key))
                return false;
            break;
        case WAITED_END:
            return true;
        }
    }
    return true;
}

static bool terminal_begin(struct tree *tree)
{
    setlocale(LC_CTYPE, "");
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        strcpy(tree->trouble, "standard input or output is not a terminal: -b prints lines");
        return false;
    }
    if (!newterm(NULL, stdout, stdin)) {
        strcpy(tree->trouble, "unknown terminal type in TERM: set TERM, or use -b to print lines");
        return false;
    }
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(50);
    return true;
}

int live_run(struct tree *tree, const struct choice *choice, double interval, unsigned long limit)
{
    struct live live = {.model = {.tree = tree, .choice = *choice}, .interval = interval};
    bool done;

    if (!terminal_begin(tree))
        return 1;
    done = live_loop(&live, limit);
    endwin();
    model_free(&live.model);
    rows_free(&live.rows);
    return done ? 0 : 1;
}
