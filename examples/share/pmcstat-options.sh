# shellcheck shell=sh
# The options of pmcstat, their combinations and refusals: the usage rules of FreeBSD's pmcstat(8).
# shellcheck disable=SC2034 # variables used by pmcstat and common.sh
usage='pmcstat [-CdEIjNqTUvW] [-c list|*] [-F|-G|-m file] [-i ms|-w s] [-l s] [-n rate] [-O|-R log] [-o file]
       [-P|-p|-S|-s event] [-r n] [-t pid|pattern] [-x sep] [-z depth] [command ...]'
usage_status=64 error_status=71 not_found=127 not_executable=126

help() {
    cat <<END
usage: $usage
       pmcstat -R log [-IqTv] [-F|-G|-m file] [-a file] [-i lwp] [-k file] [-o file] [-r dir] [-z depth]
       pmcstat -L | -u event
Events and targets:
  -p event   count an event, or a set a,b, of the command and of the processes of -t (default without
             -p -s -P -S: task-clock, context-switches, cpu-migrations, page-faults, and where the
             host has them cycles, instructions, branches, branch-misses)
  -s event   count on CPUs, with a column for each
  -P event   sample an event of the command and of the processes of -t
  -S event   sample on CPUs
  -t pid|pattern  a running process, or all whose name or command line matches the pattern (ERE)
  command    run and observe it from the first instruction (with -t: from just before it)
Summary of a command or of processes that are only counted (counts, rates, derived values, times):
  -r n       run the command n times and print means with their standard error
  -i ms      print a line per interval of this many milliseconds, instead of the summary
  -x sep     print CSV in the columns of perf stat -x, for the summary, -i and -w
  -j         print JSON, an object per line, for the summary, -i and -w, to the output of -o, for
             example: pmcstat -j -o - sleep 1 | jq .counts
System calls (superuser only; needs perf):
  --syscalls [-d] [-l s] [-o file] [-t pid|pattern] [command ...]
             calls, errors and times of each system call
Switches for the -p -s -P -S options after them (repeat a switch without argument to turn it off):
  -c list|*  CPUs of -s and -S, such as 0,2-3 (default *, all online CPUs)
  -d         also observe descendants (without any -d: those of the command only)
  -n rate    sample every rate events (default: clock and hardware events 997 times per second)
  -N         sample without call chains
  --dwarf    find callers without frame pointers, from copies of the stack (-G, -F, -T, -O *.perf)
  -U         no effect: kernel call chains always continue in user mode
  -W         log the count of each thread when it leaves a CPU (-p)
  -E         log the count of each process when it exits (-p)
  -C         print totals instead of the growth per line (-p and -s)
Time and output:
  -w s       print the growth per s seconds, instead of the summary (default without summary: 5); also for -T
  -l s       stop after s seconds
  -o file    write to file; - is standard output (default: standard error; with -R: standard output)
  -O file    store the log as text, or one -P or -S in *.perf as perf.data for perf; - is standard output.
             Logs of several PMCs are merged by time at the end, with pmc=1, pmc=2 ...
  -R file    read a stored log; needs no pmcfs
Results of samples (default: print the log of -P -S -W -E; file -: the output of -o):
  -G file    call graph: functions, with their callers below them
  -z depth   maximum depth of the call graph (default 16)
  -F file    call tree for KCachegrind
  -m file    each sampled address with name, start and end of its function (- if unknown)
  -a file    with -m: write each sample there, with its call chain in source lines
  -T         show the functions with most samples, updated continuously
  -f threshold=P  with -T and -G: only functions with at least P percent (default 0.5)
  -i lwp     only this thread (with -R)
  -I         addresses instead of names
  -r dir     programs are below dir (with -R)
  -k file    symbols of the kernel (System.map, vmlinux)
Other:
  -L         list the events
  -u event   describe an event
  -q         print no warnings about lost records
  -v         print the observed targets, and with -R the number of unknown samples
  -h         print this text
  --version  print the version
PMC=DIR is the mount point of pmcfs (default: /pmc, or else the first mount).
END
}

# ---- options ----

# A line for each -p -s -P -S: kind|cumulative|descendants|cpus|log-csw, log-exit|settings of sampling|event
counters='' patterns='' pids='' output='' log='' stored='' lists='' described='' quiet='' verbose=''
separator='' with_cpus='' cumulative='' descendants='' cpus='*' rate='' chain=on csw='' exits='' interval=5 limit=''
graph='' tree='' addresses='' sources='' top='' options_given='' json='' argument_i='' argument_r='' runs=1 summary=''
with_time='' defaults=''

# was_given LETTERS: succeeds if one of these options was given; letter is the first of them.
was_given() {
    letters=$1
    while [ "$letters" ]; do
        letter=${letters%"${letters#?}"} letters=${letters#?}
        case $options_given in
        *"$letter"*)
            [ "$letter" != - ] || letter=-dwarf
            return 0
            ;;
        esac
    done
    return 1
}

add_counter() {
    case $2 in '' | *['| 	
']*) misuse "-$1 $2: give an event, or a list a,b without blanks" ;; esac
    counters="$counters$1|$cumulative|$descendants|$cpus|$csw$exits|callchain=$chain $rate|$2
"
}

add_target() {
    if is_number "${1:-0}"; then
        [ "${1:-0}" -gt 0 ] || misuse "-t $1: give a PID above 0, or a pattern"
        pids="$pids $1"
    else
        PATTERN=$1 awk 'BEGIN { exit "" ~ ENVIRON["PATTERN"] && 0 }' 2>/dev/null ||
            misuse "-t $1: give a PID, or a valid extended regular expression"
        patterns="$patterns$1
"
    fi
}

check_cpus() {
    case $1 in '*') ;; '' | *[!0-9,-]*) misuse "-c $1: give a list of CPUs such as 0,2-3, or *" ;; esac
}

set_threshold() {
    log_threshold=${1#threshold=}
    [ "$log_threshold" != "$1" ] || misuse "-f $1: give threshold=PERCENT"
    is_seconds "$log_threshold" || misuse "-f $1: give a number of percent, such as threshold=0.5"
}

# flip VALUE WHEN-ON WHEN-OFF: prints the other value of a switch
flip() {
    if [ "$1" = "$2" ]; then echo "$3"; else echo "$2"; fi
}

# check_given_once OPTION VALUE-SO-FAR VALUE
check_given_once() {
    [ -z "$2" ] || misuse "-$1 is given twice"
    [ "$3" ] || misuse "-$1 needs the name of a file, or - for standard output"
}

read_options() {
    while getopts :hp:s:t:c:dCw:l:o:Lu:qvn:P:S:WEO:R:F:G:M:m:NUTD:gk:r:z:a:ef:i:Ijx:-: option; do
        options_given=$options_given$option
        case $option in
        h) show_help ;;
        p | s | P | S) add_counter "$option" "$OPTARG" ;;
        t) add_target "$OPTARG" ;;
        c) check_cpus "$OPTARG" && cpus=$OPTARG ;;
        d) descendants=$(flip "$descendants" on off) ;;
        n) need_count -n "$OPTARG" 'a number of events' && rate=period=$OPTARG ;;
        N) chain=$(flip "$chain" on off) ;;
        W) csw=$(flip "$csw" 'log-csw=on ' '') ;;
        E) exits=$(flip "$exits" 'log-exit=on' '') ;;
        C) cumulative=$(flip "$cumulative" yes '') ;;
        w) need_seconds -w "$OPTARG" && interval=$OPTARG ;;
        l) need_seconds -l "$OPTARG" && limit=$OPTARG ;;
        o) output=$OPTARG ;;
        O) check_given_once O "$log" "$OPTARG" && log=$OPTARG ;;
        R) check_given_once R "$stored" "$OPTARG" && stored=$OPTARG ;;
        G) check_given_once G "$graph" "$OPTARG" && graph=$OPTARG ;;
        F) check_given_once F "$tree" "$OPTARG" && tree=$OPTARG ;;
        m) check_given_once m "$addresses" "$OPTARG" && addresses=$OPTARG ;;
        a) check_given_once a "$sources" "$OPTARG" && sources=$OPTARG ;;
        z) need_count -z "$OPTARG" 'a depth' && log_depth=$OPTARG ;;
        i) argument_i=$OPTARG ;;
        I) log_raw=1 ;;
        j) json=yes ;;
        x) separator=$OPTARG ;;
        k) log_kernel=$OPTARG ;;
        r) argument_r=$OPTARG ;;
        f) set_threshold "$OPTARG" ;;
        L) lists=yes ;;
        u) described=$OPTARG ;;
        q) quiet=yes ;;
        v) verbose=yes ;;
        T) top=yes ;;
        U) ;;
        -)
            [ "$OPTARG" = dwarf ] || misuse "unknown option --$OPTARG"
            chain=$(flip "$chain" dwarf on)
            ;;
        g | D | e) misuse "-$option writes files for gprof, which is not supported: use -G, -F or perf report" ;;
        M) misuse '-M is not supported: the log has the mappings of each process, in map-in lines' ;;
        *) bad_option "$option" "$OPTARG" ;;
        esac
    done
}

# Finds the option letters of all counters, and of the counters whose log is used.
find_kinds() {
    kinds='' streams=''
    while IFS='|' read -r kind _ _ _ logs _; do
        kinds=$kinds$kind
        case $kind$logs in P* | S* | p?*) streams=$streams$kind ;; esac
    done <<END
$counters
END
}

# With counts, -i is an interval and -r a number of runs. Otherwise they mean what they mean in hwpmc's pmcstat: a thread,
# and the root directory of programs.
read_both() {
    case $stored/$kinds in
    /*[PS]* | / | ?*/*)
        ! was_given i || { need_count -i "$argument_i" 'the number of a thread' && log_lwp=$argument_i; }
        log_root=${argument_r%/}
        ;;
    *)
        ! was_given r || { need_count -r "$argument_r" 'a number of runs' && runs=$argument_r; }
        counts=yes
        was_given i || return 0
        need_count -i "$argument_i" 'a number of milliseconds'
        interval=$(printf '%d.%03d' $((argument_i / 1000)) $((argument_i % 1000))) with_time=yes
        ;;
    esac
}

# check_analysis COMMAND…
check_analysis() {
    reads=$graph$tree$addresses$top counts=
    find_kinds
    [ "$stored$lists$described" ] || was_given nNUGFmTaO || add_default_events "$@"
    read_both
    [ -z "$sources" ] || [ "$addresses" ] || misuse '-a needs -m'
    [ -z "$addresses" ] || [ -z "$graph$tree" ] || misuse '-m cannot be used with -G or -F'
    [ -z "$top" ] || [ -z "$graph$tree$addresses$limit$log" ] || misuse '-T cannot be used with -G, -F, -m, -l or -O'
    ! was_given z || [ "$graph" ] || misuse '-z needs -G'
    ! was_given f || [ "$top$graph" ] || misuse '-f needs -T or -G'
    [ "$reads" ] || ! was_given Ik || misuse "-$letter needs -G, -F, -m or -T"
    [ "$reads$counts" ] || ! was_given r || misuse '-r needs -G, -F, -m or -T'
    [ "$reads$stored$counts" ] || ! was_given i || misuse '-i needs -R, -G, -F or -m'
    [ -z "$top" ] || [ "$stored" ] || ! was_given iIkr || misuse "-$letter with -T needs a stored log: give -R LOG"
}

check_stored() {
    ! was_given O || misuse 'give either -O or -R, not both'
    ! was_given psPStcdCnNUWElwLujx- || misuse "-$letter cannot be used with -R, which reads a stored log"
    [ $# = 0 ] || misuse '-R reads a stored log: give no command'
}

check_log() {
    case $log in
    '') return ;;
    [./]*) ;;
    *:*) misuse "-O $log: pmcstat does not send to hosts: use -O - | nc ${log%%:*} ${log##*:}" ;;
    esac
    [ "$streams" ] || misuse '-O needs something to log: give -P or -S, or -W or -E before -p'
    is_perf "$log" || return 0
    case $streams in P | S) ;; *) misuse "-O $log: a perf.data file can contain only one -P or -S" ;; esac
    ! was_given iIkrm || misuse "-O $log: -m, -i, -I, -k and -r need the log as text: give another name than *.perf"
}

is_perf() {
    case $1 in *.perf) ;; *) return 1 ;; esac
}

# A command or processes that are only counted have a summary, unless options ask for lines.
check_summary() {
    [ -z "$counts" ] || [ "$#$pids$patterns" = 0 ] || was_given iwCWE || summary=yes
    for letter in ${json:+j} ${separator:+x}; do
        [ "$counts" ] || misuse "-$letter needs counts: give -p or -s"
        [ -z "$streams" ] || [ "$log" ] || misuse "-$letter with -W or -E needs -O FILE"
    done
    [ -z "$json" ] || [ -z "$separator" ] || misuse 'give either -j or -x, not both'
    ! was_given x || [ "$separator" ] || misuse '-x needs a separator, such as -x ,'
    case $kinds in *s*) with_cpus=yes ;; esac
    export SEPARATOR="$separator"
    [ "$counts" ] || return 0
    ! was_given i || ! was_given w || misuse 'give either -i or -w, not both'
    ! was_given r || { [ "$summary" ] && ! was_given t; } ||
        misuse '-r repeats a command and prints a summary: it cannot be used with -t, -i, -w, -C, -W or -E'
}

# Adds the events of perf stat if no option names an event. make_pmcs leaves out events that this host cannot count.
add_default_events() {
    [ -z "$kinds" ] && [ "$#$pids$patterns" != 0 ] || return 0
    defaults=yes
    add_counter p task-clock,context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses
    find_kinds
}

check_usage() {
    case $kinds in *[pP]*) process=yes ;; *) process='' ;; esac
    case $kinds in *[PS]*) sampling=yes ;; *) sampling='' ;; esac
    case $kinds in *[ps]*) counted=yes ;; *) counted='' ;; esac
    [ "$counted" ] || ! was_given C || misuse '-C needs counts: give -p or -s'
    [ "$kinds" ] || ! was_given o || misuse '-o needs events (-p, -s, -P or -S), or -R LOG'
    [ "$sampling" ] || ! was_given nNUGFmT- || misuse "-$letter needs samples: give -P or -S, or -R LOG"
    [ "$kinds" ] || [ "$#$pids$patterns" = 0 ] || misuse 'no event: give -p EVENT, or -P EVENT for samples'
    [ "$kinds" ] || misuse 'nothing to observe: give a command, -t PID, -s EVENT or -S EVENT'
    case $kinds in *[sS]*) ;; *) ! was_given c || misuse '-c needs events of CPUs: give -s or -S' ;; esac
    [ "$process" ] || ! was_given dEt || misuse "-$letter needs events of processes: give -p or -P"
    case $kinds in *p*) ;; *) ! was_given W || misuse '-W needs counts of processes: give -p' ;; esac
    [ -z "$process" ] || [ "$pids$patterns" ] || [ $# -gt 0 ] || misuse '-p and -P need processes: give -t PID or a command'
    check_log
    [ -z "$sampling" ] || [ -z "$counted" ] || [ "$log" ] || misuse 'counting and sampling in one run need -O FILE'
    check_summary "$@"
}
