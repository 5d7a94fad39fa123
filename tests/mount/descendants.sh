# shellcheck shell=bash disable=SC2154
# Processes below a target, however deep it goes, observable or not.

# shellcheck source=tests/mount/rights_lib.sh
. "${BASH_SOURCE[0]%/*}/rights_lib.sh"

# chain N DUMPABLE: starts a process of alice, CHAIN, with N descendants, each of them a child of the one before. With
# DUMPABLE 0 she may not observe them.
chain() {
    chmod 777 "$T"
    rm -f "$T/chained"
    setpriv --reuid "$ALICE" --regid "$ALICE" --clear-groups -- /usr/bin/python3 -c "
import ctypes, os, time
libc = ctypes.CDLL(None)
for i in range($1):
    if os.fork():
        break
    libc.prctl(4, $2)
else:
    open('$T/chained', 'w').close()
time.sleep(600)" &
    CHAIN=$!
    # shellcheck disable=SC2016 # evaluated at each try
    eventually 60 '[[ -e $T/chained ]]'
}

#@ slow
t_descendants_that_may_not_be_observed_are_counted_too() {
    mount_pmcfs -o max_covered_per_pmc=100,attach_ms=60000
    alices a event=page-faults descendants=on
    chain 90 0
    is "$(result_as "$ALICE" write "$M/a/target" "$CHAIN")" ok
    is "$(status a left_out)" 90
    as "$ALICE" rmdir "$M/a"
    alices a event=page-faults descendants=on
    chain 300 0
    is "$(result_as "$ALICE" write "$M/a/target" "$CHAIN")" EDQUOT
    like "$(cat "$M/a/error")" '^EDQUOT P11 target: .*more than 100 descendants .max_covered_per_pmc'
    empty cat "$M/a/target"
}

#@ slow
t_a_long_chain_is_covered_to_its_end() {
    mount_pmcfs -o attach_ms=60000
    alices a event=page-faults descendants=on
    chain 250 1
    is "$(result_as "$ALICE" write "$M/a/target" "$CHAIN")" ok
    is "$(status a threads)" 251
    as "$ALICE" rmdir "$M/a"
}

# Each fork and exit below the target is reported to every PMC, without delaying other requests. Runs alone: with ASan
# or at the same time as other tests one attach can take half a minute.
#@ slow plain alone
t_many_pmcs_over_a_forking_tree_hold_up_nobody() {
    mount_pmcfs -o attach_ms=60000
    setsid sh -c 'for i in 1 2 3; do while :; do /bin/true & wait $!; done & done; wait' &
    local tree=$!
    for ((i = 0; i < 60; i++)); do
        mkdir "$M/p$i"
        accepted "$M/p$i/config" "event=page-faults descendants=on target=$tree"
    done
    for ((i = 0; i < 40; i++)); do
        timeout 30 cat "$M/info/version" "$M/p$i/count" >"$T/read" || die "read $i took longer than 30 s"
    done
    between "$(count p0)" 1 100000000000
    is "$(status p0 partial)" no
    kill -KILL -- "-$tree"
}
