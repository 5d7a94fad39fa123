# shellcheck shell=bash disable=SC2016,SC2094
# The rules for writing: one write is one command, executed completely or not at all.

t_all_ways_of_writing_are_the_same_command() {
    mount_pmcfs
    pmc a
    echo page-faults >"$M/a/event"
    is "$(cat "$M/a/event")" page-faults
    printf cpu-migrations >"$M/a/event"
    is "$(cat "$M/a/event")" cpu-migrations
    echo task-clock | tee "$M/a/event" >/dev/null
    is "$(cat "$M/a/event")" task-clock
    dash -c "echo page-faults >$M/a/event"
    is "$(cat "$M/a/event")" page-faults
    /usr/bin/python3 -c "open('$M/a/event', 'w').write('minor-faults')"
    is "$(cat "$M/a/event")" minor-faults
    dd of="$M/a/event" status=none <<<major-faults
    is "$(cat "$M/a/event")" major-faults
    cat >"$M/a/event" <<<task-clock
    is "$(cat "$M/a/event")" task-clock
}

t_one_newline_or_nul_at_the_end_is_ignored() {
    mount_pmcfs
    pmc a
    accepted "$M/a/event" 'page-faults\n'
    accepted "$M/a/event" 'context-switches\0'
    is "$(cat "$M/a/event")" context-switches
    refused EINVAL P05 "$M/a/event" 'page-faults\0x'
    refused EINVAL P05 "$M/a/event" 'page-faults\0\0'
    refused EINVAL P05 "$M/a/event" '\0page-faults'
    is "$(cat "$M/a/event")" context-switches
}

t_an_empty_write_is_refused_and_truncation_is_nothing() {
    mount_pmcfs
    pmc a event=page-faults count=42
    for file in config event mode target ctl count; do
        : >"$M/a/$file"
        truncate -s 0 "$M/a/$file"
        true >>"$M/a/$file"
        refused EINVAL P05 "$M/a/$file" '\n'
    done
    is "$(count a) $(state a)" "42 allocated"
}

t_the_offset_of_a_write_does_not_matter() {
    mount_pmcfs
    pmc a
    python <<'P'
import os, sys
fd = os.open(sys.argv[1] + "/a/event", os.O_WRONLY)
assert os.pwrite(fd, b"page-faults", 70000) == 11
assert open(sys.argv[1] + "/a/event").read() == "page-faults\n"
fd = os.open(sys.argv[1] + "/a/config", os.O_WRONLY)
assert os.pwrite(fd, b"interval=50", 0) == os.pwrite(fd, b"interval=70", 0) == 11
assert "interval=70" in open(sys.argv[1] + "/a/config").read()
P
}

# These tools seek to the end of the file first.
t_tools_that_append_seek_to_the_end() {
    mount_pmcfs
    pmc a event=page-faults
    echo context-switches | tee -a "$M/a/event" >/dev/null
    /usr/bin/python3 -c "open('$M/a/event', 'a').write('task-clock')"
    is "$(xargs <"$M/a/event")" 'page-faults context-switches task-clock'
    dd of="$M/a/config" oflag=append conv=notrunc status=none <<<'interval=50'
    is "$(setting a interval)" 50
    tail -c 12 "$M/a/event" >"$T/end"
    cat "$M/a/event" >"$T/whole"
    is "$(cat "$T/end")" "$(tail -c 12 "$T/whole")"
}

t_error_is_of_commands_and_not_of_files_made_by_hand() {
    mount_pmcfs
    pmc a
    refused EINVAL CS01 "$M/a/event" nosuch
    fails_with EPERM "rm -f $M/a/count"
    fails_with EPERM "touch $M/a/new"
    fails_with EEXIST "/usr/bin/python3 -c 'import os; os.rename(\"$M/a\", \"$M/self\")'"
    fails_with EINVAL ": <>$M/a/samples"
    like "$(cat "$M/a/error")" '^EINVAL CS01 event: '
    like "$(cat "$M/info/last_error")" "${FAILED}EEXIST P23 a: mv: "
    accepted "$M/a/event" page-faults
    fails_with EPERM "rm -f $M/a/count"
    is "$(cat "$M/a/error")" ok
}

t_an_error_is_the_result_of_the_write() {
    mount_pmcfs
    pmc a
    fails_with EINVAL "echo nonsense >$M/a/event"
    ! dash -c "echo nonsense >$M/a/event" 2>/dev/null || die "dash got no error"
    fails_with EINVAL "echo nonsense | tee $M/a/event"
    python <<'P'
import errno, os, sys
fd = os.open(sys.argv[1] + "/a/event", os.O_WRONLY)
try:
    os.write(fd, b"nonsense")
    raise SystemExit("accepted")
except OSError as e:
    assert e.errno == errno.EINVAL
os.close(fd)
P
}

t_more_than_128_kib_is_e2big() {
    mount_pmcfs
    pmc a event=page-faults
    is "$(result fill "$M/a/config" 131073 '#')" E2BIG
    is "$(cat "$M/a/error")" 'E2BIG P04 config: a command has at most 131072 bytes, and this one has more: split it'
    is "$(result fill "$M/a/config" 1048576 '#')" E2BIG
    python <<'P'
import os, sys
fd = os.open(sys.argv[1] + "/a/config", os.O_WRONLY)
text = b"count=7\n" + b"#" * (128 * 1024 - 9) + b"\n"
assert os.write(fd, text) == 131072
assert open(sys.argv[1] + "/a/count").read() == "7\n"
P
}

t_a_cut_command_is_refused_and_so_is_the_rest_of_that_descriptor() {
    mount_pmcfs
    pmc a event=page-faults
    python "${PID_OF[none]:-$$}" <<'P'
import errno, os, sys
root, pid = sys.argv[1], int(sys.argv[2])
def write(fd, text):
    try:
        return os.write(fd, text)
    except OSError as e:
        return errno.errorcode[e.errno]
def read(name):
    return open(root + "/a/" + name).read()
fd = os.open(root + "/a/config", os.O_WRONLY)
assert write(fd, b"count=5 #" + b"x" * 1015) == 1024, "1024 bytes need no newline"
assert write(fd, b"count=6 #" + b"x" * 1016) == "EINVAL", "1025 bytes do"
assert read("error").startswith("EINVAL P03 config: "), read("error")
assert write(fd, b"count=7\n") == "EINVAL", "the same descriptor"
assert read("error").startswith("EINVAL P36 config: "), read("error")
assert read("count") == "5\n"
fd = os.open(root + "/a/config", os.O_WRONLY)
assert write(fd, b"count=8 #" + b"x" * 2000 + b"\n") == 2010
assert read("count") == "8\n"
fd = os.open(root + "/a/target", os.O_WRONLY)
text = (b"%d " % pid) * 2000
assert write(fd, text[:4096]) == "EINVAL"
assert write(fd, text[4096:4100] + b"\n") == "EINVAL"
assert read("target") == "", read("target")
P
}

t_c20_cf10_error_has_errno_id_file_and_sentence() {
    mount_pmcfs
    pmc a
    is "$(cat "$M/a/error")" ok
    refused EINVAL CS01 "$M/a/event" page-falts
    like "$(cat "$M/a/error")" 'page-falts.*page-faults'
    accepted "$M/a/event" page-faults
    is "$(cat "$M/a/error")" ok 'error is of the last command'
    refused EINVAL X17 "$M/a/ctl" strat
    like "$(cat "$M/a/error")" 'strat.*start'
    like "$(cat "$M/info/last_error")" "${FAILED}EINVAL X17 a/ctl: ..*"
    is "$(sed 's/^[0-9.]* //; s,a/ctl,ctl,' "$M/info/last_error")" "$(cat "$M/a/error")"
    is "$(wc -l <"$M/a/error")" 1
}

t_words_of_other_tools_are_answered_with_those_of_pmcfs() {
    mount_pmcfs
    pmc a
    refused EINVAL X17 "$M/a/ctl" enable
    like "$(cat "$M/a/error")" 'no command "enable": write start to ctl$'
    refused EINVAL E24 "$M/a/config" pid=1
    like "$(cat "$M/a/error")" 'no setting "pid": write target=PID$'
    refused EINVAL E24 "$M/a/config" call-graph=dwarf
    like "$(cat "$M/a/error")" 'no setting "call-graph": write callchain=on, user, kernel or dwarf$'
    refused EINVAL P01 "$M/a/config" 'freq = 99'
    like "$(cat "$M/a/error")" '"freq": settings are written key=value without blanks'
    refused EINVAL CS01 "$M/a/event" 12
    like "$(cat "$M/a/error")" '"12" is a number: write a PID to target'
    refused EINVAL CS01 "$M/a/event" ipc
    like "$(cat "$M/a/error")" '"ipc" is a metric: write metric/ipc$'
    refused EINVAL CS01 "$M/a/event" '}'
    like "$(cat "$M/a/error")" '"}": there is no opening brace'
    refused EINVAL CS01 "$M/a/event" '-e cycles'
    like "$(cat "$M/a/error")" '"-e": perf.s options are not used here: write event names only$'
    refused EINVAL P02 "$M/a/config" interval=1s
    like "$(cat "$M/a/error")" 'give milliseconds as a plain number, 1 to 86400000 \(1 s is 1000\), or "off"$'
}

t_sentences_use_singular_and_plural() {
    mount_pmcfs
    pmc a event=page-faults
    refused EINVAL P02 "$M/a/count" 1,2
    like "$(cat "$M/a/error")" '2 values for 1 event: write 1 number$'
    refused EINVAL P02 "$M/a/config" kgmon=maybe
    like "$(cat "$M/a/error")" 'kgmon=maybe: write off$'
    refused EINVAL P02 "$M/a/config" event=
    like "$(cat "$M/a/error")" 'event= has no value: write an event, such as event=page-faults'
    refused EINVAL P02 "$M/a/config" target=
    like "$(cat "$M/a/error")" 'target= has no value: write a PID, '
    refused EINVAL P02 "$M/a/config" interval=
    like "$(cat "$M/a/error")" 'interval=: give milliseconds as a plain number, '
    refused EINVAL P02 "$M/a/config" log=
    like "$(cat "$M/a/error")" 'log=: write one of on, off$'
}

t_foreign_bytes_in_a_sentence_are_escaped() {
    mount_pmcfs
    pmc a
    is "$(result write "$M/a/event" $'x\x01\xff"y')" EINVAL
    is "$(wc -l <"$M/a/error")" 1
    ! grep -qP '[\x00-\x08\x0b-\x1f\x7f-\xff]' "$M/a/error" || die "raw bytes: $(od -c "$M/a/error")"
    grep -qF '\001' "$M/a/error"
}

t_config_takes_blanks_newlines_comments_and_either_dash() {
    mount_pmcfs
    pmc a
    accepted "$M/a/config" '# all of it\n\tevent=page-faults   count=9 # nine\n\n start=exec\ndescendants=on log_exit=off\n'
    is "$(count a)" 9
    is "$(setting a start) $(setting a descendants)" "exec on"
    accepted "$M/a/config" 'log-exit=off LOG_CSW=off'
    refused EINVAL P01 "$M/a/config" 'count 10'
    refused EINVAL P01 "$M/a/config" '=10'
}

t_events_of_one_command_are_the_new_set() {
    mount_pmcfs
    pmc a event=page-faults event=context-switches
    is "$(cat "$M/a/event")" 'page-faults
context-switches'
    accepted "$M/a/config" event=cpu-migrations
    is "$(cat "$M/a/event")" cpu-migrations
    accepted "$M/a/event" 'task-clock\npage-faults\n'
    is "$(wc -l <"$M/a/count")" 2
}

t_config_reads_back_as_it_is_written() {
    mount_pmcfs
    target_start p
    pmc a event=page-faults event=context-switches count=3,4 descendants=on interval=50 notify=7 "target=${PID_OF[p]}"
    pmc b
    cat "$M/a/config" >"$M/b/config"
    is "$(cat "$M/b/config")" "$(cat "$M/a/config")"
    is "$(cat "$M/b/target")" "${PID_OF[p]}"
    busybox cat "$M/a/config" >"$M/a/config"
    is "$(grep -c ^lifetime "$M/a/config")" 0
    is "$(sed 's/=.*//' "$M/a/config" | grep -v '^event$' | sort | uniq -d)" ""
}

t_a_copy_of_config_replaces_the_settings() {
    mount_pmcfs
    target_start p
    pmc counted event=page-faults event=context-switches count=3,4 log-exit=on notify=7 interval=50
    pmc sampled event=cpu-clock period=50000 callchain=user depth=20 logsize=65536
    pmc rated event=cpu-clock freq=99 log=off
    pmc plain event=task-clock "target=${PID_OF[p]}"
    local from onto
    for from in counted sampled rated plain; do
        for onto in counted sampled rated plain; do
            pmc b
            grep -v ^target= "$M/$onto/config" >"$M/b/config"
            cat "$M/$from/config" >"$M/b/config" || die "$from onto $onto: $(cat "$M/b/error")"
            is "$(cat "$M/b/config")" "$(cat "$M/$from/config")" "$from onto $onto"
            rmdir "$M/b"
        done
    done
}

t_a_count_is_written_back_as_it_reads() {
    mount_pmcfs
    pmc a event=page-faults event=task-clock count=5,6
    cat "$M/a/count" >"$T/count"
    accepted "$M/a/count" 1,2
    cat "$T/count" >"$M/a/count"
    is "$(count a | xargs)" "5 6"
}
