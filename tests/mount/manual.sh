# shellcheck shell=bash
# The manual pages describe what files of a mounted tree contain.

# described PAGE WORD...: each word is in the heading of an entry.
described() {
    local page=${TEST_FILE%/tests/*}/$1 word
    shift
    (($# > 3)) || die "only $# words"
    grep -E '^\.It ' "$page" | sed 's/Ns \(=\|:\) *//g' | tr ' ",|' '\n' | sort -u >"$T/entries"
    for word; do
        grep -qxF -e "$word" "$T/entries" || die "$page has no entry for $word"
    done
}

t_each_line_of_status_has_an_entry() {
    mount_pmcfs
    mkdir "$M/a"
    echo page-faults >"$M/a/event"
    # shellcheck disable=SC2046 # the names
    described pmcfs.5 $(cut -d ' ' -f 1 "$M/a/status")
}

t_each_metric_of_metrics_prom_has_an_entry() {
    mount_pmcfs
    mkdir "$M/a"
    echo page-faults >"$M/a/event"
    like "$(cat "$M/metrics.prom")" 'HELP pmcfs_count_total .*HELP pmcfs_state '
    # shellcheck disable=SC2046 # the names
    described pmcfs.5 $(sed -n 's/^# HELP \([a-z_]*\) .*/\1/p' "$M/metrics.prom")
}
