/*
 * Words of other tools that users write to config, ctl and event, and what to write instead.
 */
#include "core/pmc/settings.h"

/* "*" as the second character matches any rest. */
static const struct {
    const char *word;
    enum foreign where;
    const char *instead;
} foreign[] = {
    {"frequency", FOREIGN_SETTING, "write freq=N (samples per second)"},
    {"sample_freq", FOREIGN_SETTING, "write freq=N (samples per second)"},
    {"rate", FOREIGN_SETTING, "write freq=N (samples per second)"},
    {"sample_period", FOREIGN_SETTING, "write period=N (events)"},
    {"pid", FOREIGN_SETTING, "write target=PID"},
    {"process", FOREIGN_SETTING, "write target=PID"},
    {"tid", FOREIGN_SETTING, "write target=tid:TID"},
    {"thread", FOREIGN_SETTING, "write target=tid:TID"},
    {"threads", FOREIGN_SETTING,
     "all threads of a target are counted: write target=tid:TID for one"},
    {"cpu", FOREIGN_SETTING, "write target=cpuN, or target=all for all CPUs"},
    {"cpus", FOREIGN_SETTING, "write target=cpuN, or target=all for all CPUs"},
    {"cgroup", FOREIGN_SETTING, "write target=cgroup:/PATH"},
    {"targets", FOREIGN_SETTING, "write target=T, once for each target"},
    {"events", FOREIGN_SETTING, "write event=E, once for each event"},
    {"metric", FOREIGN_SETTING, "write event=metric/NAME"},
    {"inherit", FOREIGN_SETTING, "write descendants=on"},
    {"children", FOREIGN_SETTING, "write descendants=on"},
    {"call_graph", FOREIGN_SETTING, "write callchain=on, user, kernel or dwarf"},
    {"callgraph", FOREIGN_SETTING, "write callchain=on, user, kernel or dwarf"},
    {"max_stack", FOREIGN_SETTING, "write depth=N (frames)"},
    {"precise", FOREIGN_SETTING, "write event=NAME:p"},
    {"pinned", FOREIGN_SETTING, "events are always pinned unless multiplex=on"},
    {"exclude_kernel", FOREIGN_SETTING, "write kernel=off"},
    {"exclude_user", FOREIGN_SETTING, "write user=off"},
    {"enable_on_exec", FOREIGN_SETTING, "write start=exec"},
    {"mmap_pages", FOREIGN_SETTING, "write logsize=BYTES"},
    {"buffer_size", FOREIGN_SETTING, "write logsize=BYTES"},
    {"threshold", FOREIGN_SETTING, "write notify=N (events)"},
    {"duration", FOREIGN_SETTING, "a PMC counts until \"stop\" is written to ctl"},
    {"timeout", FOREIGN_SETTING, "a PMC counts until \"stop\" is written to ctl"},
    {"delay", FOREIGN_SETTING, "write autostart=off, and write start to ctl later"},
    {"command", FOREIGN_SETTING, "write start=exec, and let a shell attach itself and execute it"},
    {"output", FOREIGN_SETTING, "read the files of the PMC, such as count and samples"},
    {"uid", FOREIGN_SETTING, "use chown"},
    {"owner", FOREIGN_SETTING, "use chown"},
    {"name", FOREIGN_SETTING, "a PMC has the name of its directory: use mv"},
    {"enable", FOREIGN_SETTING | FOREIGN_VERB, "write start to ctl"},
    {"enabled", FOREIGN_SETTING | FOREIGN_VERB, "write start to ctl"},
    {"disable", FOREIGN_SETTING | FOREIGN_VERB, "write stop to ctl"},
    {"disabled", FOREIGN_SETTING | FOREIGN_VERB, "write stop to ctl"},
    {"on", FOREIGN_VERB, "write start to ctl"},
    {"off", FOREIGN_VERB, "write stop to ctl"},
    {"run", FOREIGN_VERB, "write start to ctl"},
    {"begin", FOREIGN_VERB, "write start to ctl"},
    {"resume", FOREIGN_VERB, "write start to ctl"},
    {"continue", FOREIGN_VERB, "write start to ctl"},
    {"pause", FOREIGN_VERB, "write stop to ctl"},
    {"end", FOREIGN_VERB, "write stop to ctl"},
    {"clear", FOREIGN_VERB, "write reset to ctl"},
    {"zero", FOREIGN_VERB, "write reset to ctl"},
    {"attach", FOREIGN_VERB, "write the target to target"},
    {"release", FOREIGN_VERB, "remove the PMC with rmdir"},
    {"remove", FOREIGN_VERB, "remove the PMC with rmdir"},
    {"delete", FOREIGN_VERB, "remove the PMC with rmdir"},
    {"perf", FOREIGN_EVENT, "write the event names only, without the perf command"},
    {"-*", FOREIGN_EVENT, "perf's options are not used here: write event names only"},
    {"or", FOREIGN_EVENT, "perf list prints names of the same event with OR: write one of them"},
    {"[*", FOREIGN_EVENT, "leave out the text that perf list prints in brackets"},
    {"#*", FOREIGN_EVENT, "a comment starts after a blank or at the start of a line"},
    {"{*", FOREIGN_EVENT,
     "braces enclose one set: write {A,B}, and the events of other sets to other PMCs"},
    {"}*", FOREIGN_EVENT, "there is no opening brace before it: write {A,B}"},
};

const char *foreign_word_hint(struct word word, enum foreign where)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const char *name = foreign[i].word;
        const bool prefix = name[1] == '*';

        if ((foreign[i].where & where) &&
            (prefix ? word.len > 0 && word.p[0] == name[0] : word_alike(word, name, false)))
            return foreign[i].instead;
    }
    return NULL;
}
