# shellcheck shell=bash disable=SC2016
# Real monitoring programs and editors on the tree, without configuration for pmcfs.

# exporter_start DIRECTORY: starts the node exporter on the *.prom files of DIRECTORY, without its other collectors. The
# kernel chooses a port that is free.
exporter_start() {
    prometheus-node-exporter --collector.disable-defaults --collector.textfile \
        --collector.textfile.directory="$1" --web.listen-address=127.0.0.1:0 >"$T/exporter" 2>&1 &
    eventually 20 'grep -q "address=127.0.0.1:" "$T/exporter"'
    port=$(sed -n 's/.*address=127\.0\.0\.1:\([0-9]*\).*/\1/p' "$T/exporter" | head -n 1)
}

# scrape: fetches the page of the exporter into the file scraped.
scrape() {
    /usr/bin/python3 -c '
import sys, urllib.request
print(urllib.request.urlopen("http://127.0.0.1:%s/metrics" % sys.argv[1], timeout=60).read().decode())' "$port" >"$T/scraped" 2>/dev/null
}

t_node_exporter_reads_metrics_prom_in_the_tree() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    local port value
    exporter_start "$M"
    eventually 20 scrape
    tell p faults 1000
    scrape
    grep -qx 'node_textfile_scrape_error 0' "$T/scraped" || die "$(tail -3 "$T/exporter")"
    grep -q '^node_textfile_mtime_seconds{file=".*metrics.prom"}' "$T/scraped"
    value=$(sed -n 's/^pmcfs_count_total{.*event="page-faults".*pmc="a".*} //p' "$T/scraped")
    between "$(printf '%.0f' "$value")" 1000 "$(count a)"
}

# Each instance may have a PMC of the same name; a third one has none.
t_node_exporter_reads_several_instances() {
    mount_pmcfs
    target_start p
    local port name
    for name in one two none; do mkdir "$M/instances/$name"; done
    for name in one two; do
        pmc "instances/$name/a" event=page-faults "target=${PID_OF[p]}"
    done
    ctl instances/two/a stop
    exporter_start "$M/instances/*"
    eventually 20 scrape
    tell p faults 1000
    scrape
    ! grep -i 'collected before\|inconsistent' "$T/exporter" || die 'the exporter refuses a line'
    grep -qx 'node_textfile_scrape_error 0' "$T/scraped" || die "$(tail -3 "$T/exporter")"
    is "$(grep -c '^pmcfs_count_total{' "$T/scraped")" 2
    for name in one two; do
        is "$(sed -n "s/^pmcfs_count_total{event=\"page-faults\",pmc=\"a\",scope=\"process\",subtree=\"$name\"} //p" "$T/scraped" |
            xargs printf '%.0f\n')" "$(count "instances/$name/a")" "the value of $name"
    done
}

t_reads_of_a_kept_descriptor_are_current() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults "target=${PID_OF[p]}"
    # A read during faults may contain some of them; a read after their end contains all.
    python "${IN[p]}" "${OUT[p]}" <<'P'
import os, sys
fd = os.open(sys.argv[1] + "/a/count", os.O_RDONLY)
target, answers = (int(word) for word in sys.argv[2:])
def value(): return int(os.pread(fd, 64, 0))
os.write(target, b"faults 7\n")
assert os.read(answers, 100) == b"ok\n"
last = value()
for _ in range(100):
    os.write(target, b"faults 7\n")
    during = value()
    assert os.read(answers, 100) == b"ok\n"
    after = value()
    assert last <= during <= after and after >= last + 7, (last, during, after)
    last = after
P
}

t_cp_and_tar_and_grep_read_the_tree() {
    mount_pmcfs
    pmc a event=page-faults target=self
    timeout 60 cp -r "$M/a" "$T/copy" 2>"$T/printed" || die "cp: $(cat "$T/printed")"
    cmp <(cat "$M/a/event") "$T/copy/event"
    # It reads less than the file size, and therefore exits with 1, as on sysfs.
    timeout 60 tar -cf "$T/tar" -C "$M" a info admin 2>/dev/null || is $? 1 'tar'
    timeout 60 grep -rq page-faults "$M/a"
    fails_with EPERM "timeout 60 rm -r $M/a"
    is "$(cat "$M/a/event")" page-faults
}

t_editors_and_in_place_tools_get_eperm() {
    mount_pmcfs
    pmc a event=page-faults
    fails_with EPERM "sed -i s/page/x/ $M/a/event"
    fails_with EPERM "cp -r $M/a $M/a/b"
    is "$(cat "$M/a/event")" page-faults
}

t_a_shell_loop_sees_the_count_grow() {
    mount_pmcfs
    target_start p
    pmc a event=task-clock "target=${PID_OF[p]}"
    local last=0 now
    for _ in 1 2 3 4 5; do
        tell p spin 10
        read -r now <"$M/a/count"
        [[ $now -gt $last ]] || die "not growing: $last $now"
        last=$now
    done
}
