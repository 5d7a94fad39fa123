# shellcheck shell=bash disable=SC2016,SC2154
# max_events_per_process limits the events of a process, however they were attached to it.

# alices NAME EVENTS [SETTINGS…]: creates a PMC of alice with this number of events.
alices() {
    as "$ALICE" mkdir "$M/$1"
    as "$ALICE" "$HELPERS/io" write "$M/$1/config" "autostart=off event=$(events "$2") ${*:3}" >/dev/null
}

events() {
    local n=$1 list=''
    while ((n--)); do list+=,page-faults; done
    echo "${list#,}" | tr , ' ' | sed 's/ / event=/g'
}

# hers NAME FILE TEXT: alice writes it; prints the result.
hers() { result_as "$ALICE" write "$M/$1/$2" "$3"; }

too_many() { # NAME FILE EVENTS
    like "$(cat "$M/$1/error")" "^EDQUOT P11 $2: (one process|a process below the target) would have $3 events, and max_events_per_process allows "
}

# family: starts a process of alice, PID_OF[p], with a child, CHILD.
family() {
    target_start p "$ALICE"
    tell p stay 1
    CHILD=$(xargs <"/proc/${PID_OF[p]}/task/${PID_OF[p]}/children")
    like "$CHILD" '^[0-9]+$'
}

t_a_set_that_grows_is_checked_against_max_events_per_process() {
    mount_pmcfs -o max_events_per_process=4
    target_start p "$ALICE"
    for i in 1 2 3; do
        alices "a$i" 1
        is "$(hers "a$i" target "${PID_OF[p]}")" ok
    done
    is "$(hers a1 config "event=$(events 3)")" EDQUOT
    too_many a1 config 5
    is "$(hers a1 event 'page-faults page-faults page-faults')" EDQUOT
    too_many a1 event 5
    is "$(cat "$M/a1/event") $(cat "$M/a1/target") $(state a1)" "page-faults ${PID_OF[p]} allocated"
    is "$(hers a1 event 'page-faults page-faults')" ok
    is "$(hers a2 event 'page-faults page-faults')" EDQUOT
    is "$(hers a2 event task-clock)" ok 'as many as before'
    is "$(hers a1 event page-faults)" ok
    is "$(hers a2 event 'page-faults page-faults')" ok
    accepted "$M/a3/config" "event=$(events 9)"
    is "$(hers a3 event "page-faults page-faults page-faults page-faults page-faults")" ok 'fewer than before'
}

t_a_reopened_set_of_one_size_is_not_refused() {
    mount_pmcfs -o max_events_per_process=2
    target_start p "$ALICE"
    alices a 1
    is "$(hers a target "${PID_OF[p]}")" ok
    pmc roots "event=$(events 5)" "target=${PID_OF[p]}"
    is "$(hers a config multiplex=on)" ok
    is "$(hers a config "event=$(events 2)")" EDQUOT
    too_many a config 7
}

t_threads_of_a_process_count_together() {
    mount_pmcfs -o max_events_per_process=3
    target_start p "$ALICE"
    tell p threads 5
    local threads
    mapfile -t threads < <(ls "/proc/${PID_OF[p]}/task")
    is "${#threads[@]}" 6
    alices a 1
    alices b 1
    alices c 1
    is "$(hers a target "tid:${threads[1]} tid:${threads[2]} tid:${threads[3]} tid:${threads[4]}")" EDQUOT
    is "$(hers a target "tid:${threads[1]} tid:${threads[2]}")" ok
    is "$(hers b target "tid:${threads[3]}")" ok
    is "$(hers c target "tid:${threads[4]}")" EDQUOT
    too_many c target 4
    is "$(hers c target "${PID_OF[p]}")" EDQUOT 'the process'
    is "$(hers a target "-tid:${threads[1]} tid:${threads[5]}")" ok 'one for another'
    is "$(hers a target "-tid:${threads[2]}")" ok
    is "$(hers c target "${PID_OF[p]}")" ok 'the process'
    is "$(hers b event 'page-faults page-faults')" EDQUOT
    as "$ALICE" rmdir "$M/c"
    is "$(hers b event 'page-faults page-faults')" ok
}

t_a_process_has_the_events_of_its_ancestors() {
    mount_pmcfs -o max_events_per_process=3
    family
    alices a 2 descendants=on
    alices b 2
    alices c 1
    is "$(hers a target "${PID_OF[p]}")" ok
    is "$(hers b target "$CHILD")" EDQUOT
    too_many b target 4
    is "$(hers c target "$CHILD")" ok
    is "$(hers a config descendants=off)" ok
    is "$(hers b target "$CHILD")" ok
    is "$(hers a config descendants=on)" EDQUOT
    too_many a config 5
    is "$(setting a descendants)" off
}

t_an_ancestors_events_are_added_to_those_below() {
    mount_pmcfs -o max_events_per_process=3
    family
    alices b 2
    alices a 2 descendants=on
    is "$(hers b target "$CHILD")" ok
    is "$(hers a target "${PID_OF[p]}")" EDQUOT
    too_many a target 4
    is "$(hers a event page-faults)" ok
    is "$(hers a target "${PID_OF[p]}")" ok
    is "$(hers a event 'page-faults page-faults')" EDQUOT
    too_many a event 4
    is "$(hers a ctl start)" ok
    tell p faults 10
    between "$(count a)" 10 1000000
}

# A process whose parent has exited is a child of the next reaper, and keeps its inherited events.
t_events_of_an_exited_ancestor_stay() {
    mount_pmcfs -o max_events_per_process=3
    setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- /usr/bin/python3 -c '
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(36, 1)                     # orphans below it become its children
read, write = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(60)
    else:
        os.read(read, 1)                           # until it gets a byte
        os._exit(0)
while not os.path.exists(sys.argv[1]): time.sleep(0.05)
os.write(write, b"x")
os.wait()
print("reaped", flush=True)
time.sleep(60)' "$T/go" >"$T/answer" &
    local top=$! middle bottom
    eventually 10 '[[ $(cat /proc/'$top'/task/'$top'/children) ]]'
    middle=$(xargs <"/proc/$top/task/$top/children")
    eventually 10 '[[ $(cat /proc/'"$middle/task/$middle"'/children) ]]'
    bottom=$(xargs <"/proc/$middle/task/$middle/children")
    alices a 2 descendants=on
    is "$(hers a target "$middle")" ok
    touch "$T/go"
    eventually 10 '[[ $(cat "$T/answer") == reaped && $(cat /proc/'$top'/task/'$top'/children) == *'"$bottom"'* ]]'
    alices b 2 descendants=on
    is "$(hers b target "$top")" EDQUOT
    too_many b target 4
    alices c 2
    is "$(hers c target "$bottom")" EDQUOT
    is "$(hers c target "$top")" ok
    kill $top "$bottom"
}

t_the_superuser_is_not_limited() {
    mount_pmcfs -o max_events_per_process=2
    family
    pmc a "event=$(events 9)" descendants=on "target=${PID_OF[p]}"
    pmc b autostart=off "event=$(events 9)" "target=$CHILD"
    accepted "$M/b/config" "event=$(events 12)"
    as "$ALICE" mkdir "$M/c"
    is "$(hers c config "event=page-faults target=$CHILD")" EDQUOT
    rmdir "$M/b"
    is "$(hers c config "event=page-faults target=$CHILD")" ok 'what root counts of the family is not hers'
}
