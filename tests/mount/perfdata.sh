# shellcheck shell=bash disable=SC2016,SC2154
# pmc-perfdata: a perf.data file of a PMC, for programs that seek in it.

perfdata() { "$HELPERS/pmc-perfdata-$VARIANT" "$@"; }

# of_perf WORDS…: perf, which must not complain about the file.
of_perf() {
    HOME=$T timeout 60 perf "$@" 2>"$T/reply" || die "perf $*: $(cat "$T/reply")"
    unlike "$(cat "$T/reply")" 'rror|ailed|corrupt|unexpected|nvalid|ut of order|mismatch' "perf $1 reply"
}

# samples_of FILE: as perf prints them.
samples_of() { of_perf script -i "$1" -F comm,tid,cpu,time,period,event,ip,sym --ns; }

#@ slow
t_a_file_has_the_samples_of_the_stream() {
    mount_pmcfs
    pmc p event=cpu-clock,page-faults freq=997 callchain=on kernel=off descendants=on start=exec
    sh -c 'echo self >"$1" && echo go | exec "$2" child' sh "$M/p/target" "$HELPERS/hot" >"$T/out"
    eventually 10 '[[ $(state p) == exited ]]'
    perfdata "$M/p" >"$T/perf.data"
    samples_of "$T/perf.data" >"$T/seekable"
    of_perf script -i - -F comm,tid,cpu,time,period,event,ip,sym --ns <"$M/p/samples.perf" >"$T/streamed"
    cmp "$T/streamed" "$T/seekable" || die 'other samples'
    between "$(grep -c 'hotchild.*cpu-clock' "$T/seekable")" 50 100000
    of_perf report -i "$T/perf.data" --stdio --no-children -g none >"$T/printed"
    like "$(cat "$T/printed")" "event 'cpu-clock'.*hot_inner.*event 'page-faults'"
    is "$(of_perf evlist -i "$T/perf.data" | xargs)" 'cpu-clock page-faults'
    of_perf script -i "$T/perf.data" -F +tod >"$T/tod"
    like "$(grep -m 1 hotchild "$T/tod")" ' 20[0-9][0-9]-[0-9-]+ [0-9:.]+'
    perfdata <"$M/p/samples.perf" >"$T/again"
    cmp "$T/perf.data" "$T/again" || die 'another file from standard input'
    of_perf data convert --to-json "$T/json" -i "$T/perf.data" >"$T/out"
    /usr/bin/python3 -I -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["samples"]))' "$T/json" >"$T/n"
    is "$(cat "$T/n")" "$(grep -c ' cpu-clock:\| page-faults:' "$T/seekable")" 'samples in JSON'
}

#@ slow
t_perf_sched_reads_a_file_with_fields() {
    with_tracefs
    mount_pmcfs
    target_start p
    pmc s event=sched:sched_switch,sched:sched_wakeup,sched:sched_waking period=1 raw=on target=all
    tell p sleep 30
    ctl s stop
    perfdata "$M/s" >"$T/perf.data"
    of_perf sched latency -i "$T/perf.data" >"$T/latency"
    # Fields have the PIDs of the root namespace, names those of the reader's.
    like "$(cat "$T/latency")" ' TOTAL: +\| +[0-9.]+ ms \| +[1-9][0-9]* \|'
    is "$(of_perf script -i "$T/perf.data" | grep -c 'prev_comm=target ')" "$(of_perf script -i - <"$M/s/samples.perf" | grep -c 'prev_comm=target ')"
}

t_wrong_input_and_output_are_refused_with_a_sentence() {
    mount_pmcfs
    refuses() {
        local rc=0
        perfdata "${@:3}" >"$T/out" 2>"$T/reply" || rc=$?
        is "$rc" "$1"
        like "$(head -n 1 "$T/reply")" "$2"
    }
    printf 'a;b 1\n' >"$T/folded"
    refuses 1 'pmc-perfdata: the input is not a stream' <"$T/folded"
    refuses 1 'nosuch/samples.perf: No such file' "$M/nosuch"
    refuses 2 'usage: ' a b
    pmc p event=cpu-clock freq=997
    ctl p start
    ctl p stop
    perfdata "$M/p" >"$T/perf.data"
    refuses 1 'a perf.data file already' <"$T/perf.data"
    head -c 190 "$M/p/samples.perf" >"$T/cut"
    refuses 1 'middle of a record' <"$T/cut"
    { perfdata "$M/p" 2>"$T/reply" || :; } | cat >"$T/out"
    is "$(cat "$T/reply")" 'pmc-perfdata: standard output must be a file, from its start: pmc-perfdata PMC > FILE'
    like "$(perfdata -h)" "^usage: pmc-perfdata"
}
