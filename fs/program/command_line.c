/*
 * Flags, and the places: [SOURCE] MOUNTPOINT.
 */
#include "fs/program/command_line.h"

#include "fs/requests/say.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

static const struct option long_options[] = {
    {"foreground", no_argument, NULL, 'f'},
    {"options", required_argument, NULL, 'o'},
    {"config", required_argument, NULL, 'c'},
    {"check", no_argument, NULL, 'C'},
    {"print-tables", required_argument, NULL, 'T'},
    {"upgrade", no_argument, NULL, 'U'},
    {"resume", required_argument, NULL, 'R'}, /* by a supervisor */
    {"version", no_argument, NULL, 'V'},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static int usage(const char *sentence, const char *word)
{
    say(LOG_ERR, "%s%s (pmcfs --help tells more)", sentence, word);
    return EXIT_USAGE;
}

static int flag_read(struct options *options, int c, int argc, char **argv)
{
    switch (c) {
    case 'f':
        options->foreground = true;
        return 0;
    case 'o':
        buf_printf(&options->words, "%s%s", options->words.len ? "," : "", optarg);
        return 0;
    case 'c':
        options->conf_given = options_replace(options, &options->conf, optarg, strlen(optarg));
        return 0;
    case 'C':
        options->check = true;
        return 0;
    case 'T':
        options->print_tables = optarg;
        return 0;
    case 'U':
        options->upgrade = true;
        return 0;
    case 'R':
        options->resume = atoi(optarg);
        options->resume_words = optarg;
        return 0;
    case 'V':
        options->version = true;
        return 0;
    case 'h':
        options->help = true;
        return 0;
    case 's':
    case 'v':
    case 'n':
        return 0; /* mount(8)'s: sloppy, verbose, no mtab */
    case ':':
        return usage("a value is missing after ", argv[optind - 1]);
    default:
        return usage("no such option: ", optind <= argc ? argv[optind - 1] : "");
    }
}

/* [SOURCE] MOUNTPOINT: relative paths would mean something else once in the background. */
static int places_read(struct options *options, int n, char **places)
{
    bool wanted = !options->check && !options->help && !options->version && !options->print_tables;

    if (n > (options->upgrade ? 1 : 2))
        return usage("too many arguments: ", places[n - 1]);
    if (options->upgrade && options->words.len)
        return usage("--upgrade takes no -o, the options of the mount stay: ",
                     buf_text(&options->words));
    if (n == 0)
        return wanted ? usage("no mountpoint was given", "") : 0;
    options_replace(options, &options->source, n == 2 ? places[0] : "pmcfs",
                    n == 2 ? strlen(places[0]) : 5);
    if (strncmp(places[n - 1], "/dev/fd/", 8) == 0 || options->resume)
        options->mountpoint = strdup(places[n - 1]);
    else
        options->mountpoint = realpath(places[n - 1], NULL);
    if (!options->mountpoint && errno == ENOTCONN) /* left by a dead daemon: it is cleared later */
        options->mountpoint = places[n - 1][0] == '/' ? strdup(places[n - 1]) : NULL;
    if (options->mountpoint || !wanted)
        return 0;
    say(LOG_ERR, "cannot %s \"%s\": %s", options->upgrade ? "upgrade" : "mount on", places[n - 1],
        strerror(errno));
    return EXIT_FAILURE_SAID;
}

int command_line_read(struct options *options, int argc, char **argv)
{
    int c, rc = 0;

    opterr = 0;
    while (rc == 0 && (c = getopt_long(argc, argv, ":fo:c:hVsvn", long_options, NULL)) != -1)
        rc = flag_read(options, c, argc, argv);
    return rc != 0 ? rc : places_read(options, argc - optind, argv + optind);
}
