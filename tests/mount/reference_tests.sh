# shellcheck shell=bash disable=SC2016,SC2034
# The cases of FreeBSD's and illumos' own tests that need sampling or the log, where no id names them.
# shellcheck source=tests/mount/reference_lib.sh
. "${BASH_SOURCE[0]%/*}/reference_lib.sh"

t_b09_the_log_goes_into_a_socket() {
    mount_pmcfs
    pmc a event=page-faults
    accepted "$M/a/samples" one
    timeout 60 /usr/bin/python3 -B - "$M/a/samples" <<'P' >"$T/log"
import socket, subprocess, sys
ours, its = socket.socketpair()
with open(sys.argv[1]) as log:
    child = subprocess.Popen(["cat"], stdin=log, stdout=its)
its.close()
text = b""
while more := ours.recv(65536):
    text += more
assert child.wait() == 0
sys.stdout.buffer.write(text)
P
    is "$(cat "$T/log")" "$(log a)"
    in_order ' initialize ' ' allocate ' ' user text=one$'
}

t_sg3_x12_x15_b07_b08_a_reader_that_goes_or_cannot_write_harms_nobody() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults log-exit=on "target=${PID_OF[p]}"
    exec {reader}<"$M/a/samples"
    head -c 10 <&"$reader" >/dev/null
    exec {reader}<&-
    tell p faults 10
    fails_with ENOSPC "cat $M/a/samples >/dev/full"
    is "$(state a) $(cat "$M/a/error")" 'running ok'
    ctl a flush
    target_end p
    ended a
    log a >"$T/log"
    in_order ' allocate ' ' start$' ' exit '
}

t_b11_the_log_is_complete_when_its_owner_exits() {
    mount_pmcfs
    target_start p
    mkdir "$M/a"
    M=$M P=${PID_OF[p]} bash -c '
        echo "lifetime=owner event=cpu-clock freq=50 target=$P" >"$M/a/config"
        read -r' <"$T/p.out" &
    local owner=$!
    eventually 5 '[[ $(cat "$M/a/ctl" 2>/dev/null) == running ]]'
    timeout 60 cat "$M/a/samples" >"$T/log" &
    local reader=$!
    eventually 5 "grep -q start '$T/log'"
    kill -KILL $owner
    end_within 10 $reader || die 'the reader hangs'
    is "$(sed -n '$s/^[^ ]* //p' "$T/log")" close
    eventually 5 '[[ ! -e $M/a ]]'
    kill -0 "${PID_OF[p]}" || die 'the target is gone'
}

t_b06_a_live_program_of_many_threads_is_detached_from_its_sampler() {
    mount_pmcfs
    target_start p
    tell p threads 6
    pmc a event=cpu-clock freq=1000 "target=${PID_OF[p]}"
    echo 'spineach 2000' >&"${IN[p]}"
    eventually 5 '[[ $(so_far a | of sample) ]]'
    ctl a detach
    local samples
    log a >"$T/log"
    samples=$(of sample <"$T/log" | wc -l)
    sleep 0.1
    is "$(log a | of sample | wc -l)" "$samples" 'samples after the detach'
    in_order ' start$' ' sample ' ' detach '
}

t_an_ordinary_exec_keeps_the_sampler_and_logs_the_new_maps() {
    mount_pmcfs
    pmc a event=cpu-clock freq=500 start=now
    run a sh -c 'exec sh -c "i=0; while [ \$i -lt 60000 ]; do i=\$((i+1)); done"'
    ended a
    log a >"$T/log"
    between "$(of exec <"$T/log" | wc -l)" 2 2
    sed '1,/ exec /d; / sample /q' "$T/log" | of map-in | grep -q '/dash$' || die 'the new maps come too late'
    in_order ' start$' ' exec ' ' sample ' ' exit '
}

t_the_count_never_goes_back_while_children_and_threads_end() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults event=context-switches descendants=on "target=${PID_OF[p]}"
    timeout 60 /usr/bin/python3 -B - "$M/a/count" "$T/begin" "$T/end" <<'P' &
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
open(sys.argv[2], "w").close()
last, reads, grew = [0, 0], 0, 0
while not os.path.exists(sys.argv[3]):
    now = [int(word) for word in os.pread(fd, 100, 0).split()]
    assert all(a <= b for a, b in zip(last, now)), (last, now)
    grew += now[0] > last[0]
    last, reads = now, reads + 1
assert reads > 50 and grew > 5, (reads, grew)
P
    local reader=$!
    eventually 20 '[[ -e $T/begin ]]'
    for _ in {1..10}; do
        tell p children 32 100
        tell p threads 16
        tell p each 20
        tell p end 16
    done
    : >"$T/end"
    end_within 10 $reader || die 'it went back'
    between "$(count a | head -1)" 35200 200000
}
