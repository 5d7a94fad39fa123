# shellcheck shell=bash disable=SC2016
# perfmon(4), PM01-PM15. The examples' perfmon (PM16) is tested in tools.sh.
# shellcheck source=tests/mount/reference_lib.sh
. "${BASH_SOURCE[0]%/*}/reference_lib.sh"

t_pm01_a_group_may_read_and_a_missing_pmu_is_reported() {
    mount_pmcfs -o "readers=$BOB,rootmode=0750,dirmode=0750"
    is "$(stat -c %a "$M")" 750
    mkdir "$M/a"
    chmod 750 "$M/a"
    # While the PMC has another group, readers get the bits of others, and pmcfs checks the opener.
    is "$(stat -c %a "$M/a" "$M/a/count" "$M/a/config" | xargs)" '751 644 640'
    accepted "$M/a/config" event=page-faults count=7
    accepted "$M/admin/tunables/rootmode" 0755
    chgrp "$BOB" "$M/a"
    is "$(stat -c %a "$M/a" "$M/a/count" "$M/a/config" | xargs)" '750 640 640'
    is "$(as "$BOB" cat "$M/a/count" "$M/a/ctl" | xargs)" '7 allocated' 'the group reads'
    is "$(result_as "$BOB" write "$M/a/ctl" start)" EACCES 'the group does not write'
    fails_with EACCES "as $ALICE cat $M/a/count"
    if [[ $(cat "$M/info/npmc") == 0 ]]; then
        like "$(sed -n 's/^hardware_pmu //p' "$M/info/backend")" '^no: .+'
        grep -q 'no usable PMU' "$T/daemon"
        steady EOPNOTSUPP P09 "$M/a/event" r01c2
    fi
}

t_pm02_pm03_one_writer_and_its_close_frees_the_counter() {
    mount_sim sim_cpus=2,sim_rows=2
    mkdir "$M/a"
    exec {writer}>"$M/a/config"
    echo 'event=cycles lifetime=open target=cpu0' >&"$writer"
    local file
    for file in config=count=4 ctl=stop target=cpu1 event=loads mode=TC; do
        is "$(result write "$M/a/${file%%=*}" "${file#*=}")" EBUSY "$file"
        like "$(cat "$M/a/error")" "^EBUSY P29 ${file%%=*}: "
    done
    # Readers are not limited.
    exec {one}<"$M/a/count" {two}<"$M/a/count"
    like "$(cat <&"$one") $(cat <&"$two")" '^[0-9]+ [0-9]+$'
    is "$(row 0 1 users) $(row 1 1 users)" '1 0'
    # A copy of the descriptor holds it too.
    exec {copy}>&"$writer" {writer}>&-
    is "$(result write "$M/a/samples" 'a remark')" EBUSY
    is "$(result fd "$copy" count=0) $(state a)" 'ok running'
    exec {copy}>&-
    eventually 5 '[[ ! -e $M/a && $(dispositions) == "FREE FREE" ]]'
}

t_pm04_a_setup_zeroes_the_counter_and_replaces_the_one_before() {
    mount_sim
    pmc a row=0 event=r01c2 target=cpu0
    between "$(count a)" 1 1000000000000
    ctl a stop
    accepted "$M/a/event" r02c2
    is "$(count a) $(cat "$M/a/event") $(status a row)" '0 r02c2 0'
    is "$(result_as "$ALICE" write "$M/a/config" event=r03c2)" EACCES 'without write permission'
}

t_pm10_the_configuration_reads_back_exactly() {
    mount_sim
    pmc a
    empty sed -n /^event=/p "$M/a/config"
    local text
    for text in r01c2,usr,cmask=0x10,inv cycles,edge R01C2,OS; do
        accepted "$M/a/config" "event=$text row=2 count=5"
        is "$(setting a event) $(setting a row) $(setting a count)" "$text 2 5"
        pmc b
        accepted "$M/b/config" "$(cat "$M/a/config")"
        is "$(cat "$M/b/config")" "$(cat "$M/a/config")"
        rmdir "$M/b"
    done
}

t_pm11_pm13_pm15_a_counter_that_is_not_set_up() {
    mount_sim
    pmc a
    local verb
    for verb in start stop reset restart; do
        steady ENODATA P08 "$M/a/ctl" $verb
    done
    fails_with ENODATA "cat $M/a/count"
    steady EINVAL E19 "$M/a/config" 'row=4 event=cycles'
    steady EINVAL P02 "$M/a/config" 'row=64 event=cycles'
    steady EINVAL X17 "$M/a/ctl" setup
}

# moment NAME: prints CLOCK_MONOTONIC and the time stamp counter at one moment.
moment() { sed -n '1s/# time_ns \([0-9]*\) tsc \([0-9]*\)$/\1 \2/p' "$M/$1/detail"; }

t_pm14_h12_the_time_stamp_and_its_rate() {
    mount_pmcfs
    pmc a event=page-faults
    local rate before value after
    rate=$(sed -n 's/^rate_hz //p' "$M/info/tsc")
    before=$(moment a)
    value=$(as "$ALICE" sed -n 's/^value //p' "$M/info/tsc") # it is for everybody
    sleep 1
    after=$(moment a)
    between "$value" "${before#* }" "${after#* }" "the value between two others"
    between $(((${after#* } - ${before#* }) * 1000000 / (${after% *} - ${before% *}))) \
        $((rate * 9 / 10000)) $((rate * 11 / 10000)) "kHz by CLOCK_MONOTONIC"
}
