MS=1000000
N=$((200 * MS))
t_child() {
    mount_pmcfs
    run h hold cpu 1
    run p load cpu 1
    tell p stay
    pmc i "event=instructions:u descendants=on target=$PID_p"
    tell p bear $MS
    cat $M/i/detail
    order p begin $N
    answer p
    sleep 0.03
    cat $M/i/detail /proc/uptime
    tell h flash 6 15; echo $ANSWER
    cat $M/i/detail /proc/uptime
    cat $M/i/detail /proc/uptime
    tell p finish
    cat $M/i/detail /proc/uptime
    tell p bear $((20*MS))
    cat $M/i/detail $M/i/status /proc/uptime
    return 1
}
t_flash() {
    run g hold cpu 1
    run h hold cpu 1
    run p load cpu 1
    tell p spin
    tell g take 6
    tell g look; echo $ANSWER
    tell h flash 7 15
    echo $ANSWER
    tell g look; echo $ANSWER
    return 1
}
t_lost() {
    mount_pmcfs
    run h hold cpu 1
    run p load cpu 1
    pmc i "event=instructions:u target=$PID_p"
    tell p work $((5 * MS))
    cat $M/i/detail /proc/uptime
    tell p spin
    sleep 0.01
    tell h take 7
    is "$ANSWER" 7
    sleep 0.01
    for i in 1 2 3 4 5; do
    cat $M/i/count || :
    cat $M/i/ctl
    cat $M/i/detail /proc/uptime
    tell h look; echo $ANSWER
    done
    return 1
}
