# shellcheck shell=bash disable=SC2016,SC2046,SC2086
# The stream of values: `series`.

# values N: reads series of PMC a up to the N-th line of values; "# skipped" lines may be in between.
values() {
    timeout 60 /usr/bin/python3 -B -I -c '
import sys
left = int(sys.argv[2])
with open(sys.argv[1] + "/a/series") as series:
    while left:
        line = series.readline() or sys.exit("the stream ended")
        print(line, end="")
        left -= line[0] != "#"' "$M" "$1"
}

t_a_line_each_interval_while_running() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults event=task-clock interval=50 "target=${PID_OF[p]}"
    values 3 >"$T/series"
    like "$(head -1 "$T/series")" '^# .*page-faults.*task-clock'
    is "$(grep -vc '^#' "$T/series")" 3
    is "$(grep -v '^#' "$T/series" | awk 'NF != 3 || $1 <= last { print } { last = $1 }')" ''
}

t_values_are_the_growth_since_the_line_before() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=100 "target=${PID_OF[p]}"
    timeout 60 cat "$M/a/series" >"$T/series" &
    eventually 5 '[[ -s $T/series ]]'
    series_sum() { awk '!/^#/ { s += $2 } END { print s + 0 }' "$T/series"; }
    for i in 1 2 3; do
        tell p faults 1000
        eventually 5 "((\$(series_sum) >= $i * 1000))"
    done
    local total
    ctl a stop
    total=$(count a)
    rmdir "$M/a"
    wait $! || die "the stream did not end well"
    between "$(series_sum)" 3000 "$total"
}

t_a_reader_stays_over_a_restart_and_over_an_end() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=50 "target=${PID_OF[p]}"
    /usr/bin/python3 -B -I - "$M" "${PID_OF[p]}" <<'P'
import os, sys, time
base, pid = sys.argv[1] + "/a/", sys.argv[2]
def write(name, text):
    with open(base + name, "w") as f:
        f.write(text)
fd = os.open(base + "series", os.O_RDONLY)
columns = b"# seconds\tpage-faults\n"
def until(text):
    deadline = time.monotonic() + 40
    while True:
        got = os.read(fd, 4096)
        if got == text:
            return
        assert got and time.monotonic() < deadline, (got, text)
until(columns)
write("ctl", "restart")
until(columns)
write("ctl", "stop")
while os.read(fd, 4096):
    pass
assert os.read(fd, 4096) == b""
write("ctl", "start")
until(columns)
assert os.read(fd, 4096)
P
}

t_series_ends_at_once_when_stopped() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=50 "target=${PID_OF[p]}"
    ctl a stop
    timeout 30 cat "$M/a/series" >"$T/series"
    like "$(cat "$T/series")" '^#'
}

#@ slow
t_cx4_with_an_interval_series_waits_for_the_first_start_and_ends_with_its_target() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults interval=50 autostart=off "target=${PID_OF[p]}"
    timeout 30 cat "$M/a/series" >"$T/series" &
    local reader=$!
    is "$(result read "$M/a/series" nonblock)" EAGAIN
    ! timeout 1 cat "$M/a/series" >"$T/more" || die "it ended before the first start"
    ctl a start
    eventually 20 '[[ $(wc -l <"$T/series") -ge 3 ]]'
    accepted "$M/a/target" "-${PID_OF[p]}"
    wait "$reader" || die "no end when the target was taken back"
    like "$(sed -n 1p "$T/series")" '^# seconds.page-faults$'
    pmc c event=page-faults interval=50 start=exec
    timeout 30 cat "$M/c/series" >"$T/series" &
    reader=$!
    sh -c "echo self >$M/c/target && exec sleep 0.3"
    wait "$reader" || die "no end when the command was over"
    pmc none event=page-faults
    like "$(timeout 30 cat "$M/none/series")" 'no interval is set'
}

t_the_count_of_a_sampling_pmc_is_the_number_of_events() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults period=1 "target=${PID_OF[p]}"
    tell p faults 100
    between "$(count a)" 100 100000
    ctl a stop
    refused EINVAL P31 "$M/a/count" 0
    refused EINVAL P31 "$M/a/config" count=5
}

# realtime=on adds a second column; later changes of the setting do not affect the lines of a run.
t_lines_have_the_time_of_day_if_wanted() {
    mount_pmcfs
    target_start p
    local before after line reader
    before=$(date +%s.%N)
    pmc a event=page-faults,task-clock interval=50 realtime=on "target=${PID_OF[p]}"
    exec {reader}<"$M/a/series"
    read -r line <&$reader
    is "$line" $'# seconds\trealtime\tpage-faults\ttask-clock'
    until [[ $line != '#'* ]]; do # a reader that is late gets "# skipped" first
        read -r line <&$reader
    done
    after=$(date +%s.%N)
    awk -F '\t' -v before="$before" -v after="$after" \
        '{ exit !(NF == 4 && $2 ~ /^[0-9]+[.][0-9]{9}$/ && $2 > before && $2 < after) }' <<<"$line" ||
        die "not between $before and $after: $line"
    ctl a stop
    accepted "$M/a/config" realtime=off
    cat <&$reader >"$T/rest"
    is "$(awk -F '\t' '!/^#/ && NF != 4' "$T/rest")" '' "lines of the run without the column"
    exec {reader}<&-
    like "$(head -1 "$M/a/series")" $'^# seconds\tpage-faults\ttask-clock$'
}
