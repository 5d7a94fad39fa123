# shellcheck shell=dash
# The report that owners of machines can send, tests/hardware.sh.

t_every_promise_holds_on_this_machine() {
    LOAD=/bin/load CPU=0 N=8000000 sh /hardware.sh /bin >"$T/report" || die "$(cat "$T/report")"
    for name in instructions threads children set rows exhaustion 'all count' multiplex sampling 'generic names' replacement; do
        grep -q "^held     $name " "$T/report" || die "$name: $(cat "$T/report")"
    done
    like "$(cat "$T/report")" '^pmcfs [0-9.]+ on Linux'
    like "$(cat "$T/report")" '^processor: .+'
    is "$(find /tmp -name pmc -path '*tmp.*')" '' "left behind"
}

# Three instructions are fewer than an order to execute them takes.
t_a_promise_that_does_not_hold_is_reported() {
    ! LOAD=/bin/load N=3 sh /hardware.sh /bin >"$T/report" || die "$(cat "$T/report")"
    grep -q '^DIFFERS' "$T/report" || die "$(cat "$T/report")"
}
