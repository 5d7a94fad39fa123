# shellcheck shell=bash disable=SC2016,SC2154
# samples.folded: stacks of real programs, as places in files, in generated code and in the kernel.

folded() { cat "$M/$1/samples.folded"; }

# The line with most samples.
hottest() { folded "$1" | awk '$NF > most { most = $NF; line = $0 } END { print line }'; }

sampler() {
    pmc "$1" event=cpu-clock freq=997 callchain=on kernel=off "${@:2}"
}

t_a_frame_is_a_place_in_a_file() {
    mount_pmcfs
    sampler p
    talker_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    like "$(hottest p)" "^hot;(\[/[^;]*;)*(\[$HELPERS/hot\+0x[0-9a-f]+\];?){3} [0-9]+\$"
    # Where hot_inner lies in the file: all of it is in one loaded part, in which file and memory differ.
    local start size offset inside=0 all=0 place count
    read -r start size < <(nm -S "$HELPERS/hot" | sed -n 's/ [tT] hot_inner$//p')
    offset=$(readelf -lW "$HELPERS/hot" | awk '$1 == "LOAD" && / R E / { print $3, $2 }')
    start=$((16#$start - ${offset% *} + ${offset#* }))
    while read -r place count; do
        all=$((all + count))
        ((place < start || place >= start + 16#$size)) || inside=$((inside + count))
    done < <(folded p | sed -n "s:.*;\[$HELPERS/hot+\(0x[0-9a-f]*\)\] :\1 :p")
    between $((inside * 100 / all)) 90 100 'percent of its samples in hot_inner'
    hot_end own
    like "$(hottest p)" "\[$HELPERS/hot\+0x[0-9a-f]+\] [0-9]+\$" "after its end"
}

t_without_a_call_chain_there_is_one_frame() {
    mount_pmcfs
    sampler p callchain=off
    talker_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    like "$(hottest p)" "^hot;\[$HELPERS/hot\+0x[0-9a-f]+\] [0-9]+\$"
    is "$(folded p | awk -F ';' 'NF != 2' | wc -l)" 0 "lines that are not COMM;FRAME N"
    hot_end own
}

#@ slow
t_an_exited_child_has_frames_with_names() {
    mount_pmcfs
    sampler p descendants=on
    talker_start parent "$HELPERS/hot" child
    attach p "${PID_OF[parent]}"
    hot_run parent
    like "$(hottest p)" "^hotchild;.*\[$HELPERS/hot\+0x[0-9a-f]+\] [0-9]+\$"
    hot_end parent
}

t_a_frame_in_generated_code_is_pid_and_address() {
    mount_pmcfs
    sampler p
    talker_start made "$HELPERS/hot" made
    attach p "${PID_OF[made]}"
    hot_run made
    like "$(hottest p)" ";\[${PID_OF[made]}:0x[0-9a-f]+\] [0-9]+\$"
    hot_end made
}

t_a_path_cannot_break_a_line() {
    mount_pmcfs
    sampler p
    cp "$HELPERS/hot" "$T/a;b c"
    talker_start odd "$T/a;b c" own
    attach p "${PID_OF[odd]}"
    hot_run odd
    like "$(hottest p)" "^a\\\\073b\\\\040c;.*;\[$T/a\\\\073b\\\\040c\+0x[0-9a-f]+\] [0-9]+\$"
    is "$(folded p | grep -cvE '^[^ ]+ [0-9]+$' || :)" 0 "lines that are not STACK N"
    hot_end odd
}

t_the_kernels_frames_are_addresses() {
    mount_pmcfs
    pmc p event=cpu-clock freq=997 callchain=on kernel=on
    talker_start reads sh -c 'echo ready; read -r go; dd if=/dev/zero of=/dev/null bs=1M count=4000 2>/dev/null
        echo done; read -r end'
    accepted "$M/p/config" descendants=on
    attach p "${PID_OF[reads]}"
    hot_run reads
    like "$(folded p)" '^dd;(\[/.*\];)?(\[kernel\+0x[0-9a-f]+\];)+\[kernel\+0x[0-9a-f]+\] [0-9]+'
    hot_end reads
}

#@ slow
t_no_file_of_a_program_is_opened() {
    mount_pmcfs
    sampler p
    talker_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    folded p >/dev/null
    unlike "$(readlink /proc/"$SERVER"/fd/*)" '/hot$|\.so'
    is "$(pgrep -P "$SERVER")" ''
    hot_end own
}

t_a_text_is_read_in_pieces_even_without_a_log() {
    mount_pmcfs
    sampler p
    talker_start own "$HELPERS/hot" own
    attach p "${PID_OF[own]}"
    hot_run own
    hot_end own
    echo 0 >"$M/admin/tunables/max_log_per_user"
    is "$(dd if="$M/p/samples.folded" bs=10 2>"$T/printed")" "$(folded p)"
}

t_without_samples_the_text_is_empty() {
    mount_pmcfs
    sampler p
    empty folded p
    pmc c event=page-faults
    empty folded c
}
