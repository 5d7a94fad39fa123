# shellcheck shell=bash disable=SC2016
# The formats: count, detail, status, counts, metrics.prom.

t_count_is_a_decimal_and_a_newline() {
    mount_pmcfs
    pmc a event=page-faults
    is "$(od -An -tx1 "$M/a/count" | xargs)" '30 0a'
    pmc b event=page-faults event=task-clock count=3,4
    is "$(cat "$M/b/count")" '3
4'
}

t_a_held_descriptor_gives_a_fresh_value_at_each_pread() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    exec {held}<"$M/a/count"
    # The same open file description as the shell's, read at offset 0.
    pread() { /usr/bin/python3 -c 'import os, sys; print(os.pread(int(sys.argv[1]), 99, 0).decode(), end="")' "$held"; }
    local before
    before=$(pread)
    tell p faults 500
    between "$(pread)" $((before + 500)) $((before + 900))
}

t_a_text_keeps_its_length_however_many_others_are_read() {
    mount_pmcfs
    pmc a event=page-faults count=5
    python <<'P'
import os, sys
path = sys.argv[1] + "/a/count"
fd = os.open(path, os.O_RDONLY)
assert os.read(fd, 100) == b"5\n"
with open(path, "w") as f:
    f.write("1234567")
for i in range(1000):
    with open(path) as f:
        assert f.read() == "1234567\n"
rest = os.read(fd, 100)
assert rest == b"", rest
assert os.pread(fd, 100, 0) == b"1234567\n"
P
}

t_texts_read_in_small_pieces_are_one_text() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults event=task-clock "target=${PID_OF[p]}"
    python <<'P'
import os, sys
fd = os.open(sys.argv[1] + "/a/detail", os.O_RDONLY)
whole, piece = b"", b"x"
while piece:
    piece = os.read(fd, 7)
    whole += piece
lines = whole.decode().splitlines()
assert lines[1].startswith("event\ttarget"), lines
assert [l.split("\t")[1] for l in lines[2:]].count("all") == 2, lines
P
}

t_detail_has_its_header_columns_and_the_sum() {
    mount_pmcfs
    target_start p
    target_start q
    pmc a event=page-faults event=task-clock "target=${PID_OF[p]}" "target=${PID_OF[q]}"
    tell p faults 100
    ctl a stop
    cat "$M/a/detail" >"$T/detail"
    like "$(sed -n 1p "$T/detail")" '^# time_ns [0-9]+ tsc [0-9]+$'
    is "$(sed -n 2p "$T/detail")" 'event	target	value	enabled_ns	running_ns	estimate	partial	unit	scale	name'
    is "$(tail -n +3 "$T/detail" | awk -F'\t' 'NF != 10 || /\t\t|\t$/')" ''
    is "$(tail -n +3 "$T/detail" | cut -f2 | sort -u | xargs)" "all $(printf 'pid:%s\n' "${PID_OF[p]}" "${PID_OF[q]}" | sort | xargs)"
    is "$(awk -F'\t' '$1 == "page-faults" && $2 == "all" { print $3 }' "$T/detail")" "$(head -1 "$M/a/count")"
    is "$(awk -F'\t' '$1 == "page-faults" && $2 ~ /pid/ { s += $3 } END { print s }' "$T/detail")" "$(head -1 "$M/a/count")"
    is "$(tail -1 "$T/detail" | cut -f2)" all
}

t_detail_names_the_process_of_each_target() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    pmc c event=cpu-clock target=cpu0
    is "$(named a)" "pid:${PID_OF[p]} $(<"/proc/${PID_OF[p]}/comm")
all -"
    is "$(named c)" "cpu:0 -
all -"
    is "$(unshare --pid --fork awk -F'\t' '$2 != "all" && NR > 2 { print $2, $NF }' "$M/a/detail")" 'pid:0 -'
}

t_detail_escapes_the_names_of_threads() {
    local tid
    mount_pmcfs
    cat >"$T/named.py" <<'P'
import ctypes, threading, time
libc = ctypes.CDLL(None)
def run():
    libc.prctl(15, b"a\t\n=\\\x1b[1m\"\xff")
    print(threading.get_native_id(), flush=True)
    time.sleep(1000)
threading.Thread(target=run, daemon=True).start()
time.sleep(1000)
P
    coproc NAMED { exec /usr/bin/python3 -B -I "$T/named.py"; }
    read -r tid <&"${NAMED[0]}"
    pmc a event=page-faults "target=tid:$tid"
    is "$(named a)" "tid:$tid a\\011\\012\\075\\134\\033[1m\\042\\377
all -"
    kill "$NAMED_PID"
}

t_status_names_are_in_the_promised_order() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    is "$(cut -d' ' -f1 "$M/a/status" | uniq | xargs | sed 's/ gap_ns .*/ gap_ns/')" "name state event mode scope uid created unit row targets threads descriptors covered_ns enabled_ns running_ns partial attach log_bytes log_records log_lost kernel_lost throttled hidden gap_ns"
    is "$(status a name) $(status a state) $(status a mode) $(status a uid) $(status a targets)" 'a running process-counting 0 1'
    is "$(status a attach)" exact
    [[ $(status a enabled_ns) -ge 0 && $(status a running_ns) -ge 0 ]]
}

t_config_leaves_out_targets_that_the_reader_cannot_name() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    is "$(setting a target)" "${PID_OF[p]}"
    is "$(unshare --pid --fork cat "$M/a/config" | grep -c target=)" 0
    unshare --pid --fork cat "$M/a/config" >"$T/config"
    mkdir "$M/b"
    cat "$T/config" >"$M/b/config"
}

t_counts_lists_only_pmcs_that_the_reader_may_read() {
    mount_pmcfs
    pmc a event=page-faults event=task-clock count=3,4
    as "$ALICE" sh -c "mkdir $M/b; echo page-faults >$M/b/event"
    is "$(cat "$M/counts")" 'a	page-faults	3	0	0	allocated
a	task-clock	4	0	0	allocated
b	page-faults	0	0	0	allocated'
    is "$(as "$ALICE" cat "$M/counts")" 'b	page-faults	0	0	0	allocated'
    empty as "$BOB" cat "$M/counts"
}

t_metrics_have_a_line_per_pmc_and_event() {
    mount_pmcfs
    pmc twice event=page-faults event=page-faults event=page_faults event=page-faults count=1,2,3,4
    target_start p
    pmc a event=page-faults event=context-switches "target=${PID_OF[p]}"
    pmc b event=task-clock target=cpu0
    grep -q '^pmcfs_count_total{pmc="a",event="page-faults",scope="process"} [0-9]' "$M/metrics.prom"
    grep -q '^pmcfs_count_total{pmc="b",event="task-clock",scope="system",unit="ns"} [0-9]' "$M/metrics.prom"
    is "$(sed -n 's/^pmcfs_count_total{pmc="twice",//p' "$M/metrics.prom")" \
        'event="page-faults",scope="process"} 1
event="page-faults",index="1",scope="process"} 2
event="page_faults",scope="process"} 3
event="page-faults",index="2",scope="process"} 4'
    for name in pmcfs_enabled_seconds_total pmcfs_running_seconds_total pmcfs_partial \
        pmcfs_lost_records_total pmcfs_state; do
        grep -q "^$name{.*pmc=\"b\"" "$M/metrics.prom" || die "no $name of b"
    done
    grep -q '^pmcfs_state{.*pmc="b".*state="running".*} 1' "$M/metrics.prom"
    is "$(grep -c 'pid:\|cpu:' "$M/metrics.prom" || :)" 0
}

# Checked by Prometheus's parser, and by promtool if it is installed.
t_prometheus_accepts_the_metrics() {
    mount_pmcfs
    mkdir "$M/instances/web"
    pmc a event=page-faults event=task-clock target=cpu0 metrics=cpu
    pmc instances/web/b event=page-faults 'count=7'
    python <<'P'
import sys
from prometheus_client.parser import text_string_to_metric_families
samples, names = {}, set()
for family in text_string_to_metric_families(open(sys.argv[1] + "/metrics.prom").read()):
    assert family.documentation and family.type in ("counter", "gauge"), family
    assert family.name not in names, "a family in two pieces: " + family.name
    names.add(family.name)
    for sample in family.samples:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        assert key not in samples, "twice: %s" % (key,)
        assert all(sample.labels.values()), "an empty label: %s" % (key,)
        assert not {"instance", "job"} & set(sample.labels), "a label of Prometheus: %s" % (key,)
        assert (family.type == "counter") == sample.name.endswith("_total"), sample.name
        samples[key] = sample.value
label = {"pmc": "b", "event": "page-faults", "scope": "process", "subtree": "web"}
assert samples["pmcfs_count_total", tuple(sorted(label.items()))] == 7
P
    [[ ! $(type -P promtool) ]] || is "$(promtool check metrics <"$M/metrics.prom" 2>&1)" ''
}

t_metrics_prom_has_no_help_without_samples() {
    mount_pmcfs
    pmc a
    families() { sed -n 's/^# HELP \([a-z_]*\) .*/\1/p' "$1" | sort; }
    samples() { sed -n 's/^\([a-z_]*\)[ {].*/\1/p' "$1" | sort -u; }
    is "$(families "$M/metrics.prom")" "$(samples "$M/metrics.prom")"
    rmdir "$M/a"
    is "$(families "$M/metrics.prom")" "$(samples "$M/metrics.prom")"
    is "$(grep -c 'HELP pmcfs_count_total' "$M/metrics.prom" || :)" 0
    instance web
    empty cat "$M/instances/web/metrics.prom"
}

# lines_of PMC EVENT: the label cpu and the value of each line, "-" for no label.
lines_of() {
    sed -n "s/^pmcfs_count_total{pmc=\"$1\",event=\"$2\",scope=\"system\"} /- /p
        s/^pmcfs_count_total{pmc=\"$1\",event=\"$2\",scope=\"system\",cpu=\"\([0-9]*\)\"} /\1 /p" "$M/metrics.prom"
}

t_metrics_cpu_has_a_line_for_each_cpu() {
    mount_pmcfs -o backend=sim,sim_cpus=4,sim_rows=4
    cpus_of() { lines_of "$@" | cut -d ' ' -f 1 | xargs; }
    added() { lines_of a cycles | awk '{n += $2} END {printf "%d\n", n}'; }
    pmc a event=cycles event=page-faults
    accepted "$M/a/config" 'metrics=cpu' # before the events are set
    accepted "$M/a/target" 'cpu0 cpu2-3'
    pmc b event=cycles target=all
    accepted "$M/a/ctl" stop
    is "$(cpus_of a cycles)" '0 2 3'
    is "$(cpus_of a page-faults)" '0 2 3'
    is "$(cpus_of b cycles)" -
    is "$(added)" "$(head -n 1 "$M/a/count")"
    is "$(grep -c '^pmcfs_enabled_seconds_total{pmc="a"}' "$M/metrics.prom")" 1
    # Values of removed CPUs have a line without the label, so that the lines add up.
    accepted "$M/a/target" -cpu2
    is "$(cpus_of a cycles)" '0 3 -'
    is "$(added)" "$(head -n 1 "$M/a/count")"
    accepted "$M/a/target" cpu2
    is "$(cpus_of a cycles)" '0 3 2 -'
    cp "$M/a/config" "$T/config"
    mkdir "$M/c"
    accepted "$M/c/config" "$(cat "$T/config")"$'\n'
    is "$(cpus_of c cycles)" '0 3 2'
    # No line is negative after a small value is written.
    accepted "$M/a/count" '1 2'
    is "$(lines_of a cycles | xargs)" '0 0 3 0 2 0 - 1'
    accepted "$M/a/config" metrics=sum
    is "$(cpus_of a cycles)" -
}

t_metrics_cpu_is_refused_for_processes() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    ctl a stop
    refused EINVAL P07 "$M/a/config" metrics=cpu
    like "$(cat "$M/a/error")" 'metrics=cpu cannot be used in mode process-counting: it is for CPUs only'
    pmc b event=page-faults metrics=cpu
    refused EINVAL P07 "$M/b/target" "${PID_OF[p]}"
    empty cat "$M/b/target"
    accepted "$M/b/target" cpu0
}

t_the_state_of_a_pmc_is_among_the_metrics_before_it_has_an_event() {
    mount_pmcfs
    mkdir "$M/a"
    is "$(grep 'pmc="a"' "$M/metrics.prom")" 'pmcfs_lost_records_total{pmc="a"} 0
pmcfs_state{pmc="a",state="new"} 1'
}

t_one_open_of_the_metrics_is_one_text() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    local before
    before=$(date +%s)
    exec {held}<"$M/metrics.prom"
    local first
    first=$(cat <&"$held")
    tell p faults 500
    is "$(cat "/proc/self/fd/$held" >/dev/null; /usr/bin/python3 -c 'import os, sys; print(os.pread(int(sys.argv[1]), 1 << 20, 0).decode(), end="")' "$held")" "$first"
    between "$(stat -L -c %Y "$M/metrics.prom")" "$before" "$(date +%s)" mtime
}

t_writing_to_a_read_only_file_is_refused() {
    mount_pmcfs
    pmc a event=page-faults
    for file in a/detail a/status a/error a/series counts metrics.prom README info/stats; do
        fails_with EACCES "as $ALICE sh -c 'echo x >$M/$file'"
        [[ $(result open "$M/$file" w) != ok ]] || [[ $(result write "$M/$file" x) != ok ]] ||
            die "$file could be written"
    done
}
