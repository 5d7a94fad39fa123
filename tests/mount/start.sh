# shellcheck shell=bash
# Exit status and messages of the command that starts pmcfs.

t_a_start_in_the_background_returns_when_the_tree_is_there() {
    M=$T/pmc
    mkdir "$M"
    "$BIN" "$M"
    [[ -e $M/info/version ]] || die "returned too early"
    umount "$M"
}

# The child exits before it has printed anything.
t_a_start_that_fails_in_the_background_is_a_failure() {
    local rc=0
    M=$T/pmc
    mkdir "$M"
    "$BIN" -o backend=sim,sim_cpus=nonsense "$M" 2>"$T/reply" || rc=$?
    is "$rc" 1 "exit status"
    like "$(cat "$T/reply")" nonsense
    ! mountpoint -q "$M" || die "mounted"
}
