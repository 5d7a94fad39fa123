/*
 * pmctop: the command line.
 */
#include "core/call.h"
#include "examples/pmctop/top.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: pmctop [-biRt] [-n N] [-d SECONDS] [-s rate|count|name] [-f TEXT]\n"
    "A live view of the PMCs of a mounted pmcfs that you may read: counts, rates, metrics,\n"
    "and the rows with their owners. Press h for the keys.\n"
    "  -b          print lines with tab separated columns\n"
    "  -n N        exit after N readings\n"
    "  -d SECONDS  time between two readings (1)\n"
    "  -s KEY      sort by rate, count or name (rate)\n"
    "  -R          reverse the order\n"
    "  -f TEXT     show only lines that contain TEXT\n"
    "  -i          hide idle lines\n"
    "  -t          show the targets, with names of processes, instead of the metrics\n"
    "  -h, --help  print this text\n"
    "  --version   print the version\n"
    "PMC=DIR is the mount point of pmcfs (default: /pmc, or else the first mount).\n";

struct options {
    struct choice choice;
    double interval;
    unsigned long limit;
    bool batch;
};

/* Prints a usage error and returns its exit status. */
static int misuse(const char *option, const char *text, const char *wanted)
{
    fprintf(stderr, "pmctop: -%s %s: give %s\n%s", option, text, wanted, usage);
    return 2;
}

static bool sort_parse(const char *text, enum sort *sort)
{
    for (size_t i = 0; i < SORTS; i++)
        if (strcmp(text, sort_names[i]) == 0) {
            *sort = (enum sort)i;
            return true;
        }
    return false;
}

static bool limit_parse(const char *text, unsigned long *limit)
{
    char *end;

    *limit = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && *limit > 0;
}

/* Returns 0, or the exit status of a usage error. */
static int option_take(struct options *options, int option)
{
    switch (option) {
    case 'b':
        options->batch = true;
        return 0;
    case 'i':
        options->choice.busy_only = true;
        return 0;
    case 'R':
        options->choice.reversed = true;
        return 0;
    case 't':
        options->choice.targets = true;
        return 0;
    case 'n':
        return limit_parse(optarg, &options->limit) ? 0 : misuse("n", optarg, "a number above 0");
    case 'd':
        return interval_parse(optarg, &options->interval) ? 0 : misuse("d", optarg, INTERVAL_RANGE);
    case 's':
        return sort_parse(optarg, &options->choice.sort)
                   ? 0
                   : misuse("s", optarg, "rate, count or name");
    case 'f':
        if (strlen(optarg) >= sizeof options->choice.filter)
            return misuse("f", optarg, "a text of less than 64 bytes");
        strcpy(options->choice.filter, optarg);
        return 0;
    default:
        fputs(usage, stderr);
        return 2;
    }
}

int main(int argc, char **argv)
{
    static const struct option words[] = {
        {"help", no_argument, NULL, 'h'}, {"version", no_argument, NULL, 'V'}, {0}};
    struct options options = {.interval = 1};
    struct tree tree = {0};
    int option, rc;

    while ((option = getopt_long(argc, argv, "bn:d:s:Rf:ith", words, NULL)) != -1) {
        if (option == 'h' || option == 'V')
            return fputs(option == 'h' ? usage : "pmctop " PMCFS_VERSION "\n", stdout) < 0 ||
                   fflush(stdout) != 0;
        rc = option_take(&options, option);
        if (rc)
            return rc;
    }
    if (optind < argc) {
        fputs(usage, stderr);
        return 2;
    }
    rc = !tree_open(&tree) ? 1
         : options.batch   ? batch_run(&tree, &options.choice, options.interval, options.limit)
                           : live_run(&tree, &options.choice, options.interval, options.limit);
    if (rc)
        fprintf(stderr, "pmctop: %s\n", tree.trouble);
    tree_close(&tree);
    return rc;
}
