# shellcheck shell=bash disable=SC2016,SC2094
# Several writes of one open belong together: bash and others write line by line.

# in_every_shell 'SHELL TEXT' CHECK: each shell runs the text with the directory of a new PMC a as $1, then CHECK runs.
# OUTCOME is ok or failed.
in_every_shell() {
    local shell
    for shell in bash dash zsh ksh 'busybox sh'; do
        mkdir "$M/a"
        # shellcheck disable=SC2086 # busybox sh is two words
        $shell -c "$1" x "$M/a" 2>/dev/null && OUTCOME=ok || OUTCOME=failed
        "${@:2}" "$shell: $1"
        rmdir "$M/a"
    done
}

counts_both() {
    is "$OUTCOME $(xargs <"$M/a/event") $(cat "$M/a/error")" 'ok page-faults context-switches ok' "$1"
    is "$(wc -l <"$M/a/count")" 2 "$1"
}

#@ slow
t_lines_are_one_set_in_every_shell() {
    mount_pmcfs
    in_every_shell 'printf "page-faults\ncontext-switches\n" >$1/event' counts_both
    in_every_shell 'printf "page-faults\n"  >$1/event && printf "context-switches\n" >>$1/event' counts_both
    in_every_shell '{ echo page-faults; echo context-switches; } >$1/event' counts_both
    in_every_shell 'for e in page-faults context-switches; do echo $e; done >$1/event' counts_both
    in_every_shell 'printf "event=page-faults\nevent=context-switches\nstart=exec\n" >$1/config' counts_both
    in_every_shell '(echo start=exec; echo event=page-faults; echo count=5; echo event=context-switches) >$1/config' \
        counts_both
    mkdir "$M/a"
    bash -c 'echo -e "page-faults\ncontext-switches" >$1/event' x "$M/a"
    OUTCOME=ok counts_both 'echo -e'
}

t_lines_are_one_set_in_every_language() {
    mount_pmcfs
    mkdir "$M/a"
    python <<'P'
import sys
with open(sys.argv[1] + "/a/event", "w", buffering=1) as f:
    f.write("page-faults\n")
    f.write("context-switches\n")
P
    OUTCOME=ok counts_both python
    perl -e '$| = 1; open F, ">", $ARGV[0] or die; select F; $| = 1; print "page-faults\n"; print "context-switches\n";
        close F or die' "$M/a/event"
    OUTCOME=ok counts_both perl
    python <<'P'
import sys
with open(sys.argv[1] + "/a/event", "w") as f:
    f.write("page-faults\n")
with open(sys.argv[1] + "/a/event", "a") as f:
    f.write("context-switches\n")
P
    OUTCOME=ok counts_both 'python, appending'
}

#@ slow
t_lines_are_one_set_in_nodejs() {
    type node >/dev/null 2>&1 || skip 'no node (package nodejs)'
    mount_pmcfs
    mkdir "$M/a"
    node -e 'const fs = require("fs"), fd = fs.openSync(process.argv[1], "w");
        fs.writeSync(fd, "page-faults\n"); fs.writeSync(fd, "context-switches\n")' "$M/a/event"
    OUTCOME=ok counts_both node
}

counts_the_second() {
    is "$(cat "$M/a/event") $(cat "$M/a/error")" 'context-switches ok' "$1"
}

#@ slow
t_a_refused_line_changes_nothing_and_later_lines_are_accepted() {
    mount_pmcfs
    in_every_shell '{ echo page-falts; echo context-switches; } >$1/event' counts_the_second
    in_every_shell '{ echo evnt=page-faults; echo event=context-switches; } >$1/config' counts_the_second
    pmc a event=page-faults
    exec {event}>"$M/a/event"
    fails_with EINVAL 'echo page-falts >&$event'
    like "$(cat "$M/a/error")" '^EINVAL CS01 event: no event "page-falts"'
    is "$(cat "$M/a/event")" page-faults
    echo task-clock >&"$event"
    fails_with EINVAL 'echo page-falts >&$event'
    echo context-switches >&"$event"
    is "$(xargs <"$M/a/event") $(cat "$M/a/error")" 'task-clock context-switches ok'
}

t_lists_that_are_appended_line_by_line_may_have_blank_lines() {
    mount_pmcfs
    pmc a event=page-faults
    printf '# more\nminor-faults\n\ncontext-switches\n\n' >>"$M/a/event"
    is "$(cat "$M/a/event" "$M/a/error")" $'page-faults\nminor-faults\ncontext-switches\nok'
    is "$(result write "$M/a/event" '\n')" EINVAL
    mkdir "$M/b"
    printf 'page-faults\n\nminor-faults\n\n' >>"$M/b/event"
    is "$(cat "$M/b/event" "$M/b/error")" $'page-faults\nminor-faults\nok'
}

t_a_blank_line_or_comment_keeps_the_reason_of_a_refused_line() {
    local file
    mount_pmcfs
    target_start p
    pmc a
    for file in event target config; do
        ! printf 'x-faults=1\n\n# end\n' >>"$M/a/$file" || die "accepted in $file"
        like "$(cat "$M/a/error")" "^EINVAL [A-Z0-9]+ $file: .*x-faults"
    done
    accepted "$M/a/config" 'event=page-faults\n' '\n' '# end\n'
    accepted "$M/a/target" "${PID_OF[p]}\n" '\n' '# end\n'
    is "$(xargs <"$M/a/target") $(cat "$M/a/error")" "${PID_OF[p]} ok"
    for file in ctl mode count samples; do
        ! printf 'x\n\n' >"$M/a/$file" || die "accepted in $file"
        like "$(cat "$M/a/error")" '^EINVAL P0[25] '
    done
}

t_appending_adds_events_to_the_set() {
    mount_pmcfs
    pmc a event=page-faults count=7
    echo context-switches >>"$M/a/event"
    echo event=task-clock log=off >>"$M/a/config"
    is "$(xargs <"$M/a/event") $(count a | xargs)" 'page-faults context-switches task-clock 7 0 0'
    echo cpu-migrations >"$M/a/event"
    is "$(cat "$M/a/event")" cpu-migrations
}

t_a_joined_set_is_checked_like_one_written_at_once() {
    mount_sim
    mkdir "$M/a"
    is "$(result write "$M/a/event" 'cycles\n' 'loads\n' 'loads\n' 'loads\n')" EINVAL
    like "$(cat "$M/a/error")" '^EINVAL (E19|CS08) event: '
    is "$(xargs <"$M/a/event")" 'cycles loads loads'
    is "$(result write "$M/a/event" 'cycles\n' 'no-such-thing\n')" EINVAL
    is "$(cat "$M/a/event")" cycles
}

t_a_set_of_another_writer_is_not_joined() {
    mount_pmcfs
    mkdir "$M/a"
    python <<'P'
import errno, os, sys
event = sys.argv[1] + "/a/event"
one, other = (os.open(event, os.O_WRONLY) for i in range(2))
os.write(one, b"page-faults\n")
os.write(other, b"task-clock\n")
try:
    os.write(one, b"context-switches\n")
    raise SystemExit("joined a set of somebody else's")
except OSError as e:
    assert e.errno == errno.EBUSY, e
assert open(event).read() == "task-clock\n"
os.write(os.open(event, os.O_WRONLY | os.O_APPEND), b"page-faults\n")
os.write(other, b"cpu-migrations\n")
assert open(event).read().split() == ["task-clock", "page-faults", "cpu-migrations"]
P
    like "$(cat "$M/a/error")" '^ok$'
}

# copies_of NAME: writes its config line by line to a new PMC, in several ways, and compares.
copies_of() {
    local how
    for how in 'echo "$(cat a/config)" >b/config' 'while read -r l; do echo $l; done <a/config >b/config' \
        'cat a/config >b/config' 'tee b/config <a/config' 'dd bs=1k if=a/config of=b/config'; do
        mkdir "$M/b"
        bash -c "cd $M; mv $1 a; $how; rc=\$?; mv a $1; exit \$rc" >"$T/out" 2>&1 ||
            die "$1: $how: $(cat "$T/out" "$M/b/error")"
        diff "$M/$1/config" "$M/b/config" >"$T/out" || die "$1: $how: $(cat "$T/out")"
        rmdir "$M/b"
    done
}

#@ slow
t_a_copy_of_config_may_be_written_line_by_line() {
    mount_pmcfs
    target_start p
    pmc counted event=page-faults event=context-switches count=3,4 log-exit=on notify=7 interval=50 descendants=on
    pmc sampled event=cpu-clock period=50000 callchain=user depth=20 logsize=65536
    pmc both event=cpu-clock event=page-faults mode=process-sampling freq=99 "target=${PID_OF[p]}"
    pmc cpus event=task-clock event=page-faults target=cpu0
    pmc armed event=page-faults event=task-clock start=exec "target=${PID_OF[p]}"
    local from
    for from in counted sampled both cpus armed; do
        copies_of "$from"
    done
}

# ---- commas ----

t_a_comma_starts_the_next_event_except_before_a_qualifier() {
    mount_sim
    mkdir "$M/a"
    echo cycles,instructions >"$M/a/event"
    is "$(cat "$M/a/event")" 'cycles
instructions'
    echo cycles,os,cmask=2,inv,edge,instructions:u loads >"$M/a/event"
    is "$(xargs <"$M/a/event")" 'cycles,os,cmask=2,inv,edge instructions:u loads'
    echo event=cycles,usr,loads count=1,2 >"$M/a/config"
    is "$(xargs <"$M/a/event") $(count a | xargs)" 'cycles,usr loads 1 2'
    refused EINVAL CS0. "$M/a/event" cycles,,loads
    refused EINVAL CS01 "$M/a/event" ,loads
}

t_commas_between_the_slashes_are_the_events_own() {
    mount_pmcfs
    mkdir "$M/a"
    echo page-faults,context-switches >"$M/a/event"
    is "$(xargs <"$M/a/event")" 'page-faults context-switches'
    echo generic/page-faults,task-clock >"$M/a/event"
    is "$(xargs <"$M/a/event")" 'generic/page-faults task-clock'
    refused EINVAL CS01 "$M/a/event" page-faults,page-falts
    result write "$M/a/event" 'nosuch/event=0xc0,umask=1/u,page-falts' >"$T/printed"
    unlike "$(cat "$M/a/error")" 'umask. on this'
    [[ -d /sys/bus/event_source/devices/msr ]] || return 0
    echo msr/tsc/,page-faults >"$M/a/event"
    is "$(xargs <"$M/a/event")" 'msr/tsc/ page-faults'
}

# ---- error ----

t_error_is_that_of_the_last_command() {
    mount_pmcfs
    pmc a
    refused EINVAL CS01 "$M/a/event" page-falts
    refused EINVAL X17 "$M/a/ctl" strat
    accepted "$M/a/event" page-faults
    is "$(cat "$M/a/error")" ok
    line=$(cat "$M/info/last_error")
    like "$line" "${FAILED}EINVAL X17 a/ctl: " 'stays until the next failure'
    chmod "$(stat -c %a "$M/a/event")" "$M/a/event" || die "chmod to the mode that is there"
    ! chmod 777 "$M/a/event" 2>/dev/null || die "a file's mode was changed"
    touch "$M/a/event"
    chown 0 "$M/a/event"
    is "$(cat "$M/a/error")" ok
    is "$(cat "$M/info/last_error")" "$line"
}

t_last_error_has_the_time_and_the_path() {
    mount_pmcfs
    pmc a
    mkdir "$M/instances/box" "$M/instances/box/b"
    local before after
    # failed PATTERN TREE: info/last_error of the tree is this line, with a time between `before` and now.
    failed() {
        local line seconds
        after=$(date +%s)
        line=$(<"$2/info/last_error")
        like "$line" "$FAILED$1"
        seconds=${line%%.*}
        between "$seconds" "$before" "$after" "the time of '$line'"
    }
    before=$(date +%s)
    is "$(result write "$M/a/config" freq=x)" EINVAL
    failed 'EINVAL P02 a/config: freq=x' "$M"
    is "$(result write "$M/admin/tunables/mincount" x)" EINVAL
    failed 'EINVAL P27 admin/tunables/mincount: ' "$M"
    is "$(result write "$M/admin/cpu0/99" disabled)" ENOENT
    is "$(result write "$M/admin/probe" x)" EINVAL
    failed 'EINVAL [A-Z0-9]+ admin/probe: ' "$M"
    fails_with EINVAL "mkdir '$M/x y'"
    failed 'EINVAL P22 x\\040y: mkdir: ' "$M"
    fails_with EPERM "touch $M/a/new"
    failed 'EPERM P25 a/new: create: files cannot be created' "$M"
    fails_with EPERM "rm $M/info/cpus"
    failed 'EPERM P25 info/cpus: rm: ' "$M"
    fails_with EPERM "ln -s x $M/y"
    failed 'EPERM P25 y: ln: ' "$M"
    fails_with EPERM "mkdir $M/events/software/x"
    failed 'EPERM P25 events/software/x: mkdir: ' "$M"
    fails_with EPERM "mv $M/a $M/instances/box/a"
    failed 'EPERM P25 a: mv: ' "$M"
    is "$(result write "$M/instances/box/b/event" nosuch)" EINVAL
    failed 'EINVAL CS01 b/event: ' "$M/instances/box"
    like "$(cat "$M/instances/box/b/error")" '^EINVAL CS01 event: '
    failed 'EPERM P25 a: mv: ' "$M"
}

t_last_error_has_nothing_about_a_refusal_by_the_kernel() {
    mount_pmcfs
    pmc a
    is "$(result write "$M/a/event" nosuch)" EINVAL
    local line
    line=$(cat "$M/info/last_error")
    fails_with EEXIST "mkdir $M/a"
    fails_with ENOENT "rmdir $M/b"
    fails_with EACCES "as $ALICE mkdir $M/admin/x"
    fails_with EACCES ": >$M/info/cpus"
    is "$(cat "$M/info/last_error")" "$line"
}

t_an_editor_leaves_the_reason_in_error() {
    mount_pmcfs
    pmc a event=task-clock
    ! vim.tiny -es -u NONE -c ':%s/.*/page-falts/' -c ':w!' -c ':q!' "$M/a/event" || die "vim saw no error"
    like "$(cat "$M/a/error")" '^EINVAL CS01 event: .*page-falts'
    vim.tiny -es -u NONE -c ':%s/.*/page-faults/' -c ':w!' -c ':q!' "$M/a/event" || die "vim: $(cat "$M/a/error")"
    is "$(cat "$M/a/event" "$M/a/error")" 'page-faults
ok'
}
