# shellcheck shell=bash
# The size of a file is at least the length of its text, so that readers that trust the size get all of it, and
# sendfile(2) does not find it empty.

# as_read FILE: all programs read the same as read(2). For texts that stay, or streams that have ended.
as_read() {
    local file=$1
    cat "$file" >"$T/text"
    (($(stat -c %s "$file") >= $(wc -c <"$T/text"))) || die "$file shows a size of $(stat -c %s "$file")"
    (($(stat -c %s "$file") % 4096 == 0)) || die "$file shows a size of $(stat -c %s "$file")"
    for how in "busybox cat FILE" "cp FILE got" "busybox cp FILE got" "python" "dd status=none bs=700 if=FILE" \
        "tail -n 3 FILE" "tail -n +3 FILE" "tail -c 30 FILE" "busybox tail -n 3 FILE" "head -n -2 FILE" "tac FILE" \
        "wc -c FILE" "wc -l FILE" "busybox wc -c FILE" "grep -n e FILE" "sort FILE" "gawk {print\$1} FILE"; do
        for of in "$T/text" "$file"; do
            rm -f got
            case $how in
            python) python "$of" 2>&1 <<<'import shutil, sys
shutil.copyfile(sys.argv[2], "got")
with open("got", "a") as f: f.write(str(sum(map(len, open(sys.argv[2])))))' ;;
            *) (${how//FILE/$of} 2>&1 || :) | sed "s#$of##" ;;
            esac >out
            [[ ! -e got ]] || mv got out
            [[ $of == "$file" ]] || mv out expected
        done
        cmp -s out expected || die "$how of $file: '$(head -c 200 out)', expected '$(head -c 200 expected)'"
    done
}

#@ slow
t_every_reader_gets_the_same_text() {
    mount_sim
    pmc a 'event=page-faults autostart=off'
    pmc s 'event=cycles event=instructions autostart=off target=cpu0-3'
    for file in README counts info/{version,classes,cpus,rows,backend} a/{config,event,mode,target,ctl,count,status,error} \
        s/{config,target,status} admin/tunables/mincount; do
        as_read "$M/$file"
    done
    is "$(stat -c %s "$M"/a/{config,event,mode,target,ctl,count,detail,status,error,series,samples} | sort -u)" 4096
}

#@ slow
t_size_is_never_less_than_the_text() {
    mount_pmcfs
    pmc one event=page-faults
    python README counts metrics.prom info/\* one/{config,event,target,detail,status,count} events/\*/\* <<'P'
import glob, os, sys
seen = 0
for path in [p for word in sys.argv[2:] for p in glob.glob(sys.argv[1] + "/" + word)]:
    size = os.stat(path).st_size
    length = len(open(path, "rb", 0).read(1 << 20))
    assert length <= size, "%s has %d bytes and shows %d" % (path, length, size)
    seen += 1
assert seen > 30, seen
P
}

# Sets of many events, of many targets.
#@ slow
t_long_texts_have_longer_sizes() {
    mount_pmcfs
    local events=() pids=() file
    for ((i = 0; i < 64; i++)); do events+=(event=perf::PERF_COUNT_SW_PAGE_FAULTS); done
    for ((i = 0; i < 12; i++)); do
        sleep 1000 &
        pids+=($!)
    done
    pmc many
    accepted "$M/many/config" "${events[*]} autostart=off\n"
    attach many "${pids[@]}"
    for file in config event target status count; do
        as_read "$M/many/$file"
    done
    between "$(wc -c <"$M/many/detail")" 40000 "$(stat -c %s "$M/many/detail")"
    as_read "$M/counts"
    is "$(tail -n 1 "$M/many/detail" | cut -f 2)" all
    kill "${pids[@]}"
}

t_seek_end_is_the_end_of_the_text() {
    mount_sim
    pmc a 'event=cycles autostart=off'
    python <<'P'
import os, sys
def opened(name, flags=os.O_RDONLY): return os.open(sys.argv[1] + "/" + name, flags)
fd = opened("README")
end = os.lseek(fd, 0, os.SEEK_END)
os.lseek(fd, -5, os.SEEK_END)
tail = os.read(fd, 100)
text = os.pread(fd, 1 << 20, 0)
assert len(text) == end and text.endswith(tail) and len(tail) == 5, (len(text), end, tail)
ends = {name: os.lseek(opened("a/" + name), 0, os.SEEK_END) for name in ("event", "target", "count", "ctl")}
assert ends == {"event": 7, "target": 1, "count": 4096, "ctl": 4096}, ends
for whence in os.SEEK_DATA, os.SEEK_HOLE:
    try:
        sys.exit("sought: %d" % os.lseek(fd, 0, whence))
    except OSError as e:
        assert e.errno == 22, e
try:
    sys.exit("a stream ends at %d" % os.lseek(opened("a/samples"), 0, os.SEEK_END))
except OSError as e:
    assert e.errno == 29, e
P
    # SEEK_END works for a user who may only write to the file.
    mkdir "$M/w"
    chmod 300 "$M/w"
    chown "$ALICE" "$M/w"
    is "$(as "$ALICE" /usr/bin/python3 -c 'import os, sys
print(os.lseek(os.open(sys.argv[1], os.O_WRONLY), 0, os.SEEK_END))' "$M/w/config")" 4096
}

# The logs are longer than the size that is shown at first.
#@ slow
t_streams_are_copied_completely() {
    mount_pmcfs
    sh -c 'while :; do :; done' &
    local hot=$!
    pmc p "event=cpu-clock freq=997 callchain=on target=$hot"
    eventually 20 "((\$(status p log_records) > 500))"
    ctl p stop
    kill $hot
    eventually 10 "grep -q detach '$M/p/samples'"
    for file in samples samples.folded series; do
        as_read "$M/p/$file"
    done
    cp "$M/p/samples.perf" "$T/copied"
    busybox cat "$M/p/samples.perf" >"$T/read"
    cmp "$T/copied" "$T/read"
    between "$(wc -c <"$M/p/samples")" 4097 100000000
    is "$(cat "$M/p/samples" "$M/p/samples" | wc -l)" "$(($(wc -l <"$M/p/samples") * 2))"
    like "$(perf report -i "$M/p/samples.perf" 2>&1 </dev/null)" "of event 'cpu-clock'"
}

# A container with busybox only.
t_busybox_reads_and_copies() {
    mount_sim
    mkdir "$M/instances/web"
    local printed
    printed=$(bwrap --unshare-pid --dir /tmp --proc /proc --dev /dev \
        --ro-bind "$(command -v busybox)" /busybox --ro-bind-try /lib /lib --ro-bind-try /lib64 /lib64 \
        --ro-bind-try /usr/lib /usr/lib --bind "$M/instances/web" /pmc /busybox sh -c '
        set -e
        alias cat="/busybox cat" cp="/busybox cp"
        /busybox mkdir /pmc/i
        echo cycles >/pmc/i/event
        echo 17 >/pmc/i/count
        /busybox cat /pmc/i/count /pmc/i/event
        /busybox cp /pmc/i/config /tmp/config
        /busybox cmp /tmp/config /pmc/i/config
        /busybox cp /pmc/README /tmp/README
        /busybox tail -n 1 /tmp/README' 2>&1) || die "$printed"
    like "$printed" $'^17\ncycles\n  .*rw? '
}

t_the_size_of_readme_includes_a_long_mount_point() {
    T=$T/$(printf 'x%.0s' {1..200}) # mount_pmcfs mounts below it
    mkdir "$T"
    mount_pmcfs
    (($(stat -c %s "$M/README") >= $(wc -c <"$M/README"))) || die "$(stat -c %s "$M/README")"
    unmount_pmcfs
    T=${T%/*}
}
