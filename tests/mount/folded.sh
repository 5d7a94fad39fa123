# shellcheck shell=bash disable=SC2016,SC2154
# samples.folded: stacks of real programs, with names and without.

# hot_start NAME COMMAND…: a hot.c (or a copy of it) that waits to be told; its PID in PID_OF[NAME].
hot_start() {
    talker_start "$1" "${@:2}"
}

# hot_run NAME: it is busy, and says when it has been.
hot_run() {
    echo go >&"${IN[$1]}"
    read -r -t 30 -u "${OUT[$1]}" _ || die "$1 did not end its work"
}

hot_end() {
    local in=${IN[$1]} out=${OUT[$1]}
    exec {in}>&- {out}<&-
    wait "${PID_OF[$1]}" 2>/dev/null || :
}

folded() { cat "$M/$1/samples.folded"; }

# The line with most samples, and the sum of all.
hottest() { folded "$1" | awk '$NF > most { most = $NF; line = $0 } END { print line }'; }
samples_of() { folded "$1" | awk '{ sum += $NF } END { print sum + 0 }'; }

sampler() {
    pmc "$1" event=cpu-clock freq=997 callchain=on kernel=off "${@:2}"
}

t_the_hot_function_is_on_top() {
    mount_pmcfs
    sampler p
    hot_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    like "$(hottest p)" '^hot;(.*;)?main;hot_outer;hot_inner [0-9]+$'
    hot_end own
    like "$(hottest p)" '^hot;(.*;)?main;hot_outer;hot_inner [0-9]+$' "after its end"
}

t_the_counts_are_the_samples_of_the_log() {
    mount_pmcfs
    sampler p
    hot_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    hot_end own
    eventually 5 '[[ $(state p) == exited ]]'
    between "$(samples_of p)" 50 100000
    is "$(samples_of p)" "$(grep -cE '^[0-9.]+ (sample|callchain) ' "$M/p/samples")"
}

t_without_a_call_chain_there_is_one_frame() {
    mount_pmcfs
    sampler p callchain=off
    hot_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    like "$(hottest p)" '^hot;hot_inner [0-9]+$'
    is "$(folded p | awk -F ';' 'NF != 2' | wc -l)" 0 "lines that are not COMM;FRAME N"
    hot_end own
}

t_a_child_that_has_ended_has_names() {
    mount_pmcfs
    sampler p descendants=on
    hot_start parent "$HELPERS/hot" child
    attach p "${PID_OF[parent]}"
    hot_run parent
    like "$(hottest p)" '^hotchild;(.*;)?hot_outer;hot_inner [0-9]+$'
    hot_end parent
}

t_code_that_a_program_made_has_the_names_it_tells() {
    mount_pmcfs
    sampler p
    hot_start made "$HELPERS/hot" made
    attach p "${PID_OF[made]}"
    hot_run made
    like "$(hottest p)" ';made\\073by\\040a\\075program_\[j\] [0-9]+$'
    rm "/tmp/perf-${PID_OF[made]}.map"
    like "$(hottest p)" ';\[anon\+0x[0-9a-f]+\] [0-9]+$' "without its map"
    hot_end made
}

t_a_stripped_program_has_places() {
    mount_pmcfs
    sampler p
    strip -o "$T/bare" "$HELPERS/hot"
    hot_start bare "$T/bare" own
    attach p "${PID_OF[bare]}"
    hot_run bare
    like "$(hottest p)" '^bare;(.*;)?\[bare\+0x[0-9a-f]+\] [0-9]+$'
    hot_end bare
}

t_a_deleted_program_has_names() {
    mount_pmcfs
    sampler p
    cp "$HELPERS/hot" "$T/deleted"
    hot_start deleted "$T/deleted" own
    rm "$T/deleted"
    attach p "${PID_OF[deleted]}"
    hot_run deleted
    like "$(hottest p)" '^deleted;(.*;)?hot_outer;hot_inner [0-9]+$'
    hot_end deleted
}

t_a_container_brings_its_own_programs() {
    mount_pmcfs
    sampler p
    mkdir "$T/box"
    hot_start boxed unshare --mount sh -c \
        'mount -t tmpfs none "$1/box" && cp "$2" "$1/box/boxed" && exec "$1/box/boxed" own' sh "$T" "$HELPERS/hot"
    attach p "${PID_OF[boxed]}"
    hot_run boxed
    [[ ! -e $T/box/boxed ]] || die "the program is here too"
    like "$(hottest p)" '^boxed;(.*;)?hot_outer;hot_inner [0-9]+$'
    hot_end boxed
}

t_a_name_cannot_break_a_line() {
    mount_pmcfs
    sampler p
    cp "$HELPERS/hot" "$T/a;b c"
    hot_start odd "$T/a;b c" own
    attach p "${PID_OF[odd]}"
    hot_run odd
    like "$(hottest p)" '^a\\073b\\040c;(.*;)?hot_inner [0-9]+$'
    is "$(folded p | grep -cvE '^[^ ]+ [0-9]+$' || :)" 0 "lines that are not STACK N"
    hot_end odd
}

t_the_kernels_frames_are_the_superusers() {
    mount_pmcfs
    [[ $(head -n 1 /proc/kallsyms) != 0000000000000000* ]] || skip "the kernel tells nobody its addresses"
    pmc p event=cpu-clock freq=997 callchain=on kernel=on
    hot_start reads sh -c 'echo ready; read -r go; dd if=/dev/zero of=/dev/null bs=1M count=4000 2>/dev/null
        echo done; read -r end'
    accepted "$M/p/config" descendants=on
    attach p "${PID_OF[reads]}"
    hot_run reads
    like "$(folded p)" ';[a-z_0-9]*read[a-z_0-9]*_\[k\];'
    hot_end reads
}

t_an_ordinary_user_has_names_of_ones_own_programs() {
    mount_pmcfs
    hot_start own setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- "$HELPERS/hot" own
    as "$ALICE" mkdir "$M/p"
    is "$(result_as "$ALICE" write "$M/p/config" 'event=cpu-clock freq=997 callchain=on')" ok
    is "$(result_as "$ALICE" write "$M/p/target" "${PID_OF[own]}")" ok
    hot_run own
    like "$(as "$ALICE" cat "$M/p/samples.folded" | sort -nk2 -t' ' | tail -n 1)" ';hot_outer;hot_inner [0-9]+$'
    unlike "$(as "$ALICE" cat "$M/p/samples.folded")" '_\[k\]'
    fails_with EACCES "as $BOB cat '$M/p/samples.folded'"
    hot_end own
}

t_a_text_is_read_in_pieces_even_without_a_log() {
    mount_pmcfs
    sampler p
    hot_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    hot_end own
    echo 0 >"$M/admin/tunables/max_log_per_user"
    is "$(dd if="$M/p/samples.folded" bs=10 2>"$T/said")" "$(folded p)"
}

t_no_helper_is_left() {
    mount_pmcfs
    sampler p
    hot_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    for _ in 1 2 3 4 5; do
        folded p >/dev/null &
    done
    like "$(hottest p)" ';hot_outer;hot_inner [0-9]+$'
    wait %?folded 2>/dev/null || :
    eventually 5 '! pgrep -P "$DAEMON" >/dev/null'
    hot_end own
}

t_nothing_was_sampled_is_an_empty_text() {
    mount_pmcfs
    sampler p
    is "$(folded p)" ''
    pmc c event=page-faults
    is "$(folded c)" ''
}

# helper_stop: the next helper of the daemon's, stopped in its work; its PID in `helper`.
helper_stop() {
    for _ in {1..500}; do
        read -r helper _ < <(cat "/proc/$DAEMON/task/"*/children 2>/dev/null) || : # no newline
        [[ $helper ]] && kill -STOP "$helper" 2>/dev/null && return
        kill -0 "$reader" 2>/dev/null || return 1
    done
    return 1
}

t_a_reader_whose_helper_hangs_hears_of_signals() {
    mount_pmcfs
    sampler p
    hot_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    hot_end own
    eventually 5 '[[ $(state p) == exited ]]'
    local reader helper began state=
    for _ in {1..50}; do # some end before they can be stopped
        cat "$M/p/samples.folded" >"$T/folded" &
        reader=$!
        helper_stop && sleep 0.1 && read -r _ _ state _ <"/proc/$helper/stat" && [[ $state == T ]] && break
        wait "$reader"
    done
    is "$state" T "the helper's state"
    began=${EPOCHREALTIME/./}
    kill -KILL "$reader"
    wait "$reader" 2>/dev/null || :
    between $(((${EPOCHREALTIME/./} - began) / 1000)) 0 900 "ms until the reader had ended"
    like "$(folded p)" 'hot_inner' # nothing is held against its file
}
