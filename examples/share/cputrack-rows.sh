# shellcheck shell=sh
# The rows of cputrack: what happens to processes is read from the log of one PMC on them, what single threads
# count from PMCs on each. Sourced after cpc.sh.
# shellcheck disable=SC2154,SC2034 # what cputrack, cpc.sh and common.sh set and read, also by eval

# lwps: yes if threads have separate rows. threads: the PMCs of single threads in the bound set; later: the PMCs among
# them for new threads. alive, processes: running threads and processes. exited_threads: threads that exited while this
# set was bound. uncounted_threads: threads that exited before they could be counted separately.
# For thread N: process_N; last_N, its values at the last reading; since_N, values since its last row; sums_SET_N, its
# total values.
lwps=yes threads='' later='' alive='' processes='' uncounted_threads='' exited_threads='' processes_computed=''

# is_member WORD LIST
is_member() {
    case " $2 " in *" ${1:-/} "*) ;; *) return 1 ;; esac
}

# ---- PMCs on threads ----

# bind_threads N SETTING…: creates PMCs of a set for single threads, and adds them to threads. They request no row: a row
# requested by picN= is that of the PMC on the process.
bind_threads() {
    bound_before=$bound groups=$(value_of "groups_$1")
    eval "groups_$1=\$(printf '%s\n' \"\$groups\" | sed 's/row=[0-9]*|//g')"
    bind_set "$@"
    fits=$?
    later=$bound threads="$threads $bound" bound=$bound_before
    eval "groups_$1=\$groups"
    return $fits
}

unbind_threads() {
    # shellcheck disable=SC2086 # word splitting is intended
    pmc_remove $threads
    threads=''
}

no_lwps() {
    printf '%s: no separate rows for threads, because %s\n' "$tool" "$refusal" >&2
    lwps=''
    unbind_threads
}

# Tries with this shell whether the counters suffice for a process and in addition for each of its threads.
check_lwps() {
    number=1
    while [ "$lwps" ] && [ $number -le "$specs" ]; do
        if ! bind_set $number autostart=off target=self || ! bind_threads $number autostart=off target=tid:self; then
            no_lwps
        fi
        unbind_threads
        unbind
        number=$((number + 1))
    done
}

# add_new_thread PID TID: adds a thread; the status is 1 if it was seen before.
add_new_thread() {
    ! is_member "$2" "$alive" || return 1
    alive="$alive $2"
    is_member "$1" "$processes" || processes="$processes $1"
    eval "process_$2=\$1 last_$2= since_$2="
    set_number=1
    while [ $set_number -le "$specs" ]; do
        eval "sums_${set_number}_$2="
        set_number=$((set_number + 1))
    done
}

# count_thread TID
count_thread() {
    [ "$lwps" ] || return 0
    for name in $later; do
        try_put "$PMC/$name/target" "tid:$1" && continue
        case $refusal in
        *ESRCH* | *E40*) uncounted_threads="$uncounted_threads $1" ;;
        *) no_lwps ;;
        esac
        return 0
    done
}

# ---- values ----

# add_to VARIABLE "NUMBERS"
add_to() {
    get "$1"
    add_up "$2" "$result"
    eval "$1=\$result"
}

# read_thread_values: brings the sums of all threads up to date.
read_thread_values() {
    [ "$lwps" ] || return 0
    while read -r thread rest; do
        [ "$thread" != time ] || elapsed=$((rest - start_ns))
        is_member "$thread" "$alive" || continue
        get "last_$thread"
        subtract "$rest" "$result"
        difference=$result
        eval "last_$thread=\$rest"
        add_to "since_$thread" "$difference"
        add_to "sums_${current}_$thread" "$difference"
    done <<END
$(sample tid "$threads")
END
}

# read_sum: reads the sum over all processes; the growth is added to since.
read_sum() {
    while read -r target rest; do
        case $target in
        time) elapsed=$((rest - start_ns)) ;;
        all)
            subtract "$rest" "$previous"
            since=$result previous=$rest
            add_to "sums_$current" "$since"
            ;;
        esac
    done <<END
$(sample all "$bound")
END
}

# exit_values: prints the exit records in the logs of the bound set so far, as lines "PID VALUE…", with 0 for a log
# without a record. Returns at the end of the logs, or when they have no more records now.
exit_values() {
    for name in $bound; do
        echo '= log'
        try_put "$PMC/$name/ctl" flush
        dd "if=$PMC/$name/samples" iflag=nonblock bs=64k status=none 2>/dev/null
    done | awk '$1 == "=" { log_number++ }
    $2 == "exit" {
        sub(/^pid=/, "", $3); sub(/^count=/, "", $4)
        width[log_number] = gsub(/,/, " ", $4) + 1
        if (!($3 in seen)) order[++n] = $3
        seen[$3]
        values[$3, log_number] = $4
    }
    END {
        for (i = 1; i <= n; i++) {
            printf "%s", order[i]
            for (j = 1; j <= log_number; j++) {
                if ((order[i], j) in values) printf " %s", values[order[i], j]
                else for (k = 0; k < width[j]; k++) printf " 0"
            }
            print ""
        }
    }'
}

# compute_processes: before a set is unbound, computes the values of each process. Running processes have no exit
# record yet, so they get the sum of their threads, and the remainder belongs to no process.
compute_processes() {
    control_bound detach
    while read -r word rest; do
        [ -z "$word" ] || add_to "left_${current}_${word#-}" "$rest"
    done <<END
$(exit_values)
END
    for thread in $alive $exited_threads; do
        get "process_$thread"
        ! is_member "$result" "$processes" || add_thread_to_process "$result" "$thread"
    done
    exited_threads='' processes_computed=yes
}

# add_thread_to_process PROCESS THREAD
add_thread_to_process() {
    get "last_$2"
    values=${result#* }
    [ "$values" ] || return 0
    add_to "left_${current}_$1" "$values"
    get "left_${current}_"
    subtract "$result" "$values"
    eval "left_${current}_=\$result"
}

# ---- rows ----

# print_row NS PID LWP EVENT RUNNING_NS|- "VALUES" [COMMENT]
print_row() {
    seconds "$1"
    row=$result format=%7s
    [ "$follow" = off ] || row="$row $2" format="$format %7s"
    row="$row $3 $4" format="$format %7s %10s" result=$5
    if [ "$tick" ]; then
        case $5 in *[0-9]) ticks "$5" ;; esac
        row="$row $result" format="$format %12s"
    fi
    result=${7-}
    [ "$result" ] || [ "$specs" = 1 ] || get "spec_$current"
    put_row "$format" "$row" "$6" "$result" >&3
}

# print_numbers NS PID LWP EVENT "RUNNING_NS VALUES"
print_numbers() {
    print_row "$1" "$2" "$3" "$4" "${5%% *}" "${5#* }"
}

# each_pic WORD: sets result to as many of these words as the bound set has counters
each_pic() {
    get "pics_$current"
    word=$1
    # shellcheck disable=SC2086 # word splitting is intended
    set -- $result
    result=
    while [ $# -gt 0 ]; do
        result="$result $word"
        shift
    done
}

# each_set FUNCTION WORD…: with each of the sets as the current one
each_set() {
    bound_set=$current current=1
    while [ $current -le "$specs" ]; do
        "$@"
        current=$((current + 1))
    done
    current=$bound_set
}

# print_begin NS PID TID EVENT
print_begin() {
    [ "$lwps" ] || return 0
    each_pic 0
    print_row "$1" "$2" "$3" "$4" 0 "$result"
}

# print_thread NS TID EVENT: prints all that a thread counted of the current set
print_thread() {
    get "process_$2"
    process=$result
    if is_member "$2" "$uncounted_threads"; then
        each_pic -
        result="-$result"
    else
        each_pic 0
        numbers="0$result"
        get "sums_${current}_$2"
        add_up "$numbers" "$result"
    fi
    print_numbers "$1" "$process" "$2" "$3" "$result"
}

# print_process NS PID: prints the values of a process for each set, without -f the values of all processes. Sets that
# were never bound are skipped.
print_process() {
    if [ "$follow" = off ]; then
        get "sums_$current"
    else
        get "left_${current}_$2"
        if [ "$current" = "$bound_set" ] && [ -z "$processes_computed" ]; then
            add_up "$(exit_values | sed -n "s/^$2 //p")" "$result"
        fi
        result=${result:+"- $result"}
    fi
    [ -z "$result" ] || print_numbers "$1" "$2" - exit "$result"
}

# print_rest: prints what belongs to no process, so that the exit rows add up to the total.
print_rest() {
    get "left_${current}_"
    case $result in *[1-9]*) print_numbers "$elapsed" - - exit "- $result" ;; esac
}

# print_ticks: prints the growth since the previous row; if sets take turns, the total of each set
print_ticks() {
    if [ -z "$lwps" ]; then
        read_sum
        result=$since
        [ "$specs" = 1 ] || get "sums_$current"
        print_numbers "$elapsed" "$pid" - tick "$result"
        return
    fi
    for thread in $alive; do
        ! is_member "$thread" "$uncounted_threads" || continue
        get "process_$thread"
        process=$result
        if [ "$specs" = 1 ]; then get "since_$thread"; else get "sums_${current}_$thread"; fi
        # Threads that were created since the values were read are in the next row.
        [ -z "$result" ] || print_numbers "$elapsed" "$process" "$thread" tick "$result"
        eval "since_$thread="
    done
}

# ---- the log ----

# field KEY: sets value to this field of the record in fields
field() {
    value=" $fields"
    value=${value#*" $1="}
    value=${value%% *}
}

# thread_started NS PID TID: adds a thread; threads older than the log were added before.
thread_started() {
    add_new_thread "$2" "$3" || return 0
    count_thread "$3"
    [ "$stamp" = "$started" ] || [ "$3" = "$2" ] || print_begin "$1" "$2" "$3" lwp_create
    [ -z "$verbose" ] || print_begin "$1" "$2" "$3" init_lwp
}

# thread_exited NS TID: prints the row of an exited thread, except of a first thread: its process has an exit row.
thread_exited() {
    if [ "$lwps" ]; then
        [ -z "$verbose" ] || each_set print_thread "$1" "$2" fini_lwp
        get "process_$2"
        [ "$2" = "$result" ] || each_set print_thread "$1" "$2" lwp_exit
    fi
    drop "$2" "$alive"
    alive=$kept exited_threads="$exited_threads $2"
}

# find_exited_threads: reads all threads and prints rows of exited threads, with the time from the log of their PMC.
find_exited_threads() {
    [ "$lwps" ] || return 0
    targets=$(cd "$PMC" && for name in $threads; do cat "$name/target"; done | tr '\n' ' ')
    missing_threads=
    for thread in $alive; do
        get "process_$thread"
        [ "$thread" = "$result" ] || is_member "tid:$thread" "$targets" || missing_threads="$missing_threads $thread"
    done
    read_thread_values
    [ "$missing_threads" ] || return 0
    while read -r when thread; do
        is_member "$thread" "$missing_threads" || continue
        drop "$thread" "$missing_threads"
        missing_threads=$kept
        since_start "$when"
        thread_exited "$result" "$thread"
    done <<END
$(for name in $threads; do
        sed -n 's/ detach target=tid:\([0-9]*\) .*reason=exited.*/ \1/p' "$PMC/$name/samples"
    done | sort -s -k 1,1n)
END
    for thread in $missing_threads; do thread_exited "$elapsed" "$thread"; done
}

# threads_of PROCESS: sets members to its threads, each after a blank
threads_of() {
    members=
    for thread in $alive; do
        get "process_$thread"
        [ "$result" != "$1" ] || members="$members $thread"
    done
}

process_exited() {
    is_member "$2" "$processes" || return 0
    threads_of "$2"
    case $verbose/$members in
    yes/* | */*\ *\ *) find_exited_threads ;;
    esac
    [ "$follow" = on ] || read_sum
    threads_of "$2"
    for thread in $members; do thread_exited "$1" "$thread"; done
    each_set print_process "$1" "$2"
    drop "$2" "$processes"
    processes=$kept
}

# check_lost: reports that the process in lost has executed a program that this user may not observe. The record after its
# detach is an attach if the user may.
check_lost() {
    field pid
    if [ "$type/$value" != "attach/$lost" ]; then
        printf '%s: process %s has executed a privileged program (set-id, file capabilities or unreadable): it is no longer counted\n' \
            "$tool" "$lost" >&2
        process_exited "$at" "$lost"
    fi
    lost=
}

# A tick is a remark in the log: what happened before it has been read.
tick_now() {
    [ "$bound" ] && [ "$executed$given_pid" ] || return 0
    find_exited_threads
    is_positive "$interval" || return 0
    print_ticks
    [ "$specs" = 1 ] || start_next_set
    samples=$((samples + 1))
    [ "$samples" = "$count" ] || return 0
    released=yes
}

start_next_set() {
    [ -z "$lwps" ] || read_sum
    [ "$follow" = off ] || compute_processes
    unbind
    unbind_threads
    current=$((current % specs + 1)) previous='' processes_computed='' words=''
    for process in $processes; do words="$words target=$process"; done
    # If the last thread has just exited, the sums stay unchanged; the exit record of the process follows.
    # shellcheck disable=SC2086 # word splitting is intended
    bind_set $current "descendants=$follow" $exit_records $words || case $refusal in
    *ESRCH*) unbind && return ;;
    *) fail "-c $(value_of "spec_$current"): $refusal" ;;
    esac
    [ "$lwps" ] || return 0
    words=
    for thread in $alive; do eval "last_$thread=''" && words="$words target=tid:$thread"; done
    # shellcheck disable=SC2086 # word splitting is intended
    bind_threads $current $words || case $refusal in *ESRCH*) ;; *) no_lwps ;; esac
}

# since_start SECONDS.NANOSECONDS: sets result to the nanoseconds since start_ns
since_start() {
    result=$((${1%.*}${1#*.} - start_ns))
    [ $result -ge 0 ] || result=0
}

# follow_log: reads the log to its end, or until the requested number of samples.
follow_log() {
    started='' executed=''
    [ "$at_exec" = exec ] || executed=yes
    while read -r stamp type fields; do
        since_start "$stamp"
        at=$result
        [ -z "$lost" ] || check_lost
        case $type in
        start) started=$stamp ;;
        process) field pid && thread_started $at "$value" "$value" ;;
        thread) field tid && thread=$value && field pid && thread_started $at "$value" "$thread" ;;
        fork) [ "$follow" = off ] || fork_now $at ;;
        exec) exec_now $at ;;
        exit) field pid && process_exited $at "$value" ;;
        detach) case $fields in *reason=exec-privileged*) field pid && lost=$value ;; esac ;;
        user) [ "$fields" != text=tick ] || tick_now ;;
        esac
        [ -z "$released" ] || return 0
    done
    type=
    [ -z "$lost" ] || check_lost
    # Prints no rows if cputrack was killed or the command never started.
    kill -0 "$$" 2>/dev/null || return 0
    # The log ends with its last target or with the tree, whose directory may still exist for a moment.
    case $(cat "$PMC/$events/ctl" 2>/dev/null) in running | '') tree_gone ;; esac
    [ "$executed$given_pid" ] || return 0
    find_exited_threads
    [ "$follow" = off ] || compute_processes
    for process in $processes; do process_exited "$elapsed" "$process"; done
    [ "$follow" = off ] || each_set print_rest
}

fork_now() {
    field pid && parent=$value && field child
    print_row "$1" "$parent" - fork - '' "$value"
    thread_started "$1" "$value" "$value"
}

# Counting starts at the first exec of a command.
exec_now() {
    field pid && process=$value && field path
    if [ -z "$executed$given_pid" ]; then program=$command; else program=$value; fi
    [ -z "$exec_rows" ] || print_row "$1" "$process" "$process" exec - '' "'$program'"
    [ -n "$executed$given_pid" ] || [ -z "$verbose" ] || print_begin "$1" "$process" "$process" init_lwp
    executed=yes
}
