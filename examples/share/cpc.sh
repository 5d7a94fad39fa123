# shellcheck shell=sh
# What cpustat and cputrack share: event specifications as cpc(3CPC) spells them, binding them as sets, and
# reading samples. Sourced after common.sh.
# shellcheck disable=SC2154,SC2034 # variables of common.sh, or read by eval

specs=0 bound=''

# Parses one -c: prints "levels USER KERNEL", then in the order of counters "pic N EVENT fixed|free". If
# it is invalid, prints the reason, and the status is 1.
parse_spec() {
    SPEC=$1 awk '
    function bad(text) { printf "\"%s\": %s\n", ENVIRON["SPEC"], text; failed = 1; exit 1 }
    function hex_value(text,    i, digit, value) {
        for (i = 1; i <= length(text); i++) {
            digit = index("0123456789abcdef", substr(text, i, 1)) - 1
            value = value * base + digit
        }
        return value
    }
    # Decimal, 0x…, 0…: as strtol(3) with base 0; -1 if it is not a number
    function number(text) {
        text = tolower(text)
        base = 10
        if (text ~ /^0x[0-9a-f]+$/) { base = 16; return hex_value(substr(text, 3)) }
        if (text ~ /^0[0-7]+$/) { base = 8; return hex_value(text) }
        return text ~ /^[0-9]+$/ ? text + 0 : -1
    }
    function request(event, pic, fixed) {
        if (pic in event_of) bad("pic" pic " is given twice")
        if (event == "") bad("pic" pic " has no event: write pic" pic "=EVENT")
        event_of[pic] = number(event) >= 0 ? sprintf("r%x", number(event)) : event
        fixed_of[pic] = fixed
        if (pic >= free) free = pic + 1
    }
    # Attributes may precede or follow their events, so they are stored until all events are known.
    function attribute(text,    name, which, value, equals) {
        equals = index(text, "=")
        name = equals ? substr(text, 1, equals - 1) : text
        value = equals ? number(substr(text, equals + 1)) : 1
        if (value < 0) bad("\"" text "\": give a number as the value")
        which = match(name, /[0-9]+$/) ? substr(name, RSTART) + 0 : -1
        sub(/[0-9]+$/, "", name)
        attributes++
        name_of[attributes] = name; which_of[attributes] = which; value_of[attributes] = value
    }
    function apply(i, pic) {
        if (name_of[i] == "sys") system_of[pic] = value_of[i] != 0
        else if (name_of[i] == "nouser") user_of[pic] = value_of[i] == 0
        else if (name_of[i] == "int") bad("int (interrupt at overflow) is not supported: sample with freq= or period= in config instead")
        else if (name_of[i] ~ /^(edge|inv|any)$/) { if (value_of[i]) qualifiers[pic] = qualifiers[pic] "," name_of[i] }
        else if (name_of[i] != "pc") qualifiers[pic] = qualifiers[pic] "," name_of[i] "=" value_of[i]
    }
    function token(text) {
        if (text == "") bad("nothing between two commas: remove one")
        if (text ~ /^pic[0-9]*=/) {
            if (text ~ /^pic=/) bad("pic needs the number of a counter, such as pic0=EVENT")
            request(substr(text, index(text, "=") + 1), substr(text, 4, index(text, "=") - 4) + 0, "fixed")
        } else if (text ~ /^pic[0-9]*$/)
            bad("\"" text "\" has no event: write " text "=EVENT")
        else if (text ~ /^(edge|inv|any|cmask|umask|count|pc|int|sys|nouser)[0-9]*(=.*)?$/)
            attribute(text)
        else if (text ~ /=/ && text !~ /\//)
            bad("unknown attribute \"" text "\": write edge, inv, any, pc, cmask=N, umask=N, count=N, sys or nouser")
        else
            request(text, free, "free")
    }
    BEGIN {
        free = 0
        # A comma between the slashes of pmu/term,term/ separates nothing here.
        parts = split(ENVIRON["SPEC"], part, ",")
        for (i = 1; i <= parts; i++) {
            word = joined == "" ? part[i] : joined "," part[i]
            if (gsub(/\//, "/", word) % 2) { joined = word; continue }
            joined = ""
            token(word)
        }
        if (joined != "") bad("the closing / is missing")
        if (!free) bad("no event: write its name")
        for (pic = 0; pic < free; pic++) { user_of[pic] = 1; system_of[pic] = 0 }
        for (i = 1; i <= attributes; i++) {
            if (which_of[i] >= 0 && !(which_of[i] in event_of))
                bad(name_of[i] which_of[i] ": pic" which_of[i] " has no event")
            for (pic = 0; pic < free; pic++)
                if (pic in event_of && (which_of[i] < 0 || which_of[i] == pic)) apply(i, pic)
        }
        first = -1
        for (pic = 0; pic < free; pic++) {
            if (!(pic in event_of)) continue
            if (!user_of[pic] && !system_of[pic]) bad("pic" pic ": nouser without sys counts nothing: add sys, or remove nouser")
            if (first < 0) first = pic
            if (user_of[pic] != user_of[first] || system_of[pic] != system_of[first]) mixed = 1
        }
        print "levels", user_of[first] ? "on" : "off", system_of[first] ? "on" : "off"
        for (pic = 0; pic < free; pic++) {
            if (!(pic in event_of)) continue
            # The modes of the set do not apply to events raised by the kernel.
            if (mixed) qualifiers[pic] = qualifiers[pic] (user_of[pic] ? ",usr" : "") (system_of[pic] ? ",os" : "")
            print "pic", pic, event_of[pic] qualifiers[pic], fixed_of[pic]
        }
    }'
}

# add_spec TEXT: adds a set. spec_N is its text, levels_N and groups_N are written for it, pics_N are its counters. A
# group becomes one PMC: adjacent events without a fixed counter, or one event with a fixed counter.
add_spec() {
    parsed=$(parse_spec "$1") || misuse "-c $parsed"
    specs=$((specs + 1)) level='' groups='' pics='' open=''
    while read -r word first second third; do
        case $word/$third in
        levels/*) level="user=$first kernel=$second" ;;
        pic/fixed) groups="$groups row=$first|event=$second" open='' pics="$pics $first" ;;
        pic/free)
            [ "$open" ] && groups="$groups|event=$second" || groups="$groups event=$second"
            pics="$pics $first" open=yes
            ;;
        esac
    done <<END
$parsed
END
    eval "spec_$specs=\$1 levels_$specs=\$level groups_$specs=\$groups pics_$specs=\$pics sums_$specs="
}

# value_of VARIABLE: prints a numbered variable
value_of() {
    eval "printf '%s\n' \"\$$1\""
}

# bind_set N SETTING…: creates the PMCs of a set with these settings; their names are in bound. If one is refused, the
# status is 1 and the reason in refusal.
bind_set() {
    set_number=$1
    shift
    bound=''
    for group in $(value_of "groups_$set_number"); do
        group=$(printf '%s\n' "$group" | tr '|' ' ')
        [ -z "$debug" ] || printf '%s: %s %s %s\n' "$tool" "$group" "$(value_of "levels_$set_number")" "$*" >&2
        settings="$(value_of "levels_$set_number") $*"
        # Events that need no hardware counter cannot request one.
        pmc_new "$group $settings" ||
            case $group/$refusal in
            row=*'has no rows'*) pmc_new "${group#row=* } $settings" ;;
            *) false ;;
            esac || return 1
        bound="$bound $new"
    done
}

# warn_of_partial: prints a warning for the first partial count.
warned=''
warn_of_partial() {
    for name in $bound; do
        [ "$warned" ] || ! warn_if_partial "$name" || warned=yes
    done
}

unbind() {
    warn_of_partial
    # shellcheck disable=SC2086 # word splitting is intended
    pmc_remove $bound
    bound=''
}

control_bound() {
    for name in $bound; do
        try_put "$PMC/$name/ctl" "$1" || return 1
    done
}

# sample all|cpu|tid NAMES: prints "time NS" of these PMCs, then for each target "number-or-all RUNNING_NS VALUE…".
# Numbers are copied as text, because awk rounds large ones. Prints nothing if the tree was unmounted.
sample() {
    files=
    for name in $2; do files="$files $name/detail"; done
    [ "$files" ] || return 0
    # shellcheck disable=SC2086 # word splitting is intended
    (cd "$PMC" && awk -F "$tab" -v want="$1" '
        FNR == 1 { split($0, word, " "); if (NR == 1) print "time", word[3]; next }
        FNR == 2 || (want == "all") != ($2 == "all") || index($2, "/") { next } # "/": a part of the next line
        {
            target = $2
            sub(/^(cpu|tid):/, "", target)
            if (!(target in values)) { order[++targets] = target; values[target] = $5 }
            values[target] = values[target] " " $3
        }
        END { for (i = 1; i <= targets; i++) print order[i], values[order[i]] }' $files) 2>/dev/null
}

# now_ns: sets result to the time of the tree's clock
now_ns() {
    # shellcheck disable=SC2086 # the first of the words
    set -- $bound
    result=$(sed -n '1s/^# time_ns \([0-9]*\).*/\1/p' "$PMC/$1/detail" 2>/dev/null)
    [ "$result" ] || tree_gone
}

# The following functions set result, because a subshell for each row would cost a process.

# seconds NS: seconds with three decimals
seconds() {
    result=$(($1 / 1000000 % 1000 + 1000))
    result=$(($1 / 1000000000)).${result#1}
}

# ticks NS: cycles of the time stamp counter in that time
ticks() {
    result=$(($1 * tick_mhz / 1000))
}

# add_up "NUMBERS" "NUMBERS": their sums; the shorter one counts as zeros. subtract: their differences.
add_up() { combine 1 "$@"; }
subtract() { combine -1 "$@"; }
combine() {
    sign=$1 right=$3 result=''
    for term in $2; do
        # shellcheck disable=SC2086 # word splitting is intended
        set -- $right
        result="$result${result:+ }$((term + sign * ${1:-0}))"
        [ $# = 0 ] || shift
        right=$*
    done
    for term in $right; do result="$result${result:+ }$((sign * term))"; done
}

# get VARIABLE: the value of a numbered variable; empty if it was never set
get() {
    eval "result=\${$1-}"
}

# put_row FORMAT "WORDS" "VALUES" [COMMENT]: a line in one write; each value has its column.
put_row() {
    format=$1 comment=${4:+" # $4"}
    for cell in $3; do format="$format %12s"; done
    # shellcheck disable=SC2086 # word splitting is intended
    set -- $2 $3 "$comment"
    # shellcheck disable=SC2059 # it is one
    printf "$format%s\n" "$@" 2>/dev/null || unwritable
}

# put_header FORMAT "TITLES": prints the titles and those of the values: the counters of the only set, or as many columns as
# the widest set has.
put_header() {
    columns=$1 titles=$2 shown=''
    if [ "$specs" = 1 ]; then
        for number in $pics_1; do shown="$shown pic$number"; done
    else
        most=0 number=1
        while [ $number -le "$specs" ]; do
            # shellcheck disable=SC2046 # word splitting is intended
            set -- $(value_of "pics_$number")
            [ $# -le $most ] || most=$#
            number=$((number + 1))
        done
        number=0
        while [ $number -lt $most ]; do shown="$shown pic$number" number=$((number + 1)); done
    fi
    [ -z "$tick" ] || columns="$columns %12s" titles="$titles tick"
    put_row "$columns" "$titles" "$shown"
}

# Fails, before the first line, if the counters do not suffice for one of the sets. Sets tick_mhz.
check_sets() {
    number=1
    while [ $number -le "$specs" ]; do
        bind_set $number "$@" || fail "-c $(value_of "spec_$number"): $refusal"
        unbind
        number=$((number + 1))
    done
    tick_mhz=$(awk '$1 == "rate_hz" { printf "%d\n", $2 / 1000000 }' "$PMC/info/tsc")
}

# Prints the available counters for -h; prints nothing without a tree.
describe_machine() {
    find_tree
    if [ ! -r "$PMC/info/version" ]; then
        printf '\nEvents are listed where pmcfs is mounted.\n'
        return
    fi
    printf '\nCPU: %s, %s counters\n' "$(cat "$PMC/info/cpu")" "$(cat "$PMC/info/npmc")"
    printf 'attributes: edge inv any pc cmask=N umask=N count=N sys nouser; a number is a raw event\n'
    for class in $(list "$PMC/events"); do
        count=$(list "$PMC/events/$class" | wc -l)
        if [ "$count" -gt 200 ]; then
            printf '%s events: %d, see %s\n' "$class" "$count" "$PMC/events/$class"
        else
            printf '%s events: %s\n' "$class" "$(list "$PMC/events/$class" | tr '\n' ' ')"
        fi
    done
    sed 's/^/see: /' "$PMC/info/cpuref"
}
