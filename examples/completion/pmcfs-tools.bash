# shellcheck shell=bash
# Completion in bash for the tools of pmcfs. Options, and of what kind their arguments are, are read from the tool's own
# -h; events, CPUs, counters and PMCs from the tree that it would use.

# _pmcfs_tree WORD…: prints the directory of this tree.
_pmcfs_tree() {
    local place
    while (($# > 1)); do
        [[ $1 != -M ]] || { printf '%s\n' "$2" && return; }
        shift
    done
    [[ ! ${PMC-} ]] || { printf '%s\n' "$PMC" && return; }
    while IFS= read -r place; do
        printf -v place %b "${place//\\/\\0}"
        [[ ! -r $place/info/version ]] || { printf '%s\n' "$place" && return; }
    done < <(awk '{ for (i = 7; i <= NF && $i != "-"; i++); if ($(i + 1) == "fuse.pmcfs") print $5 }' /proc/self/mountinfo)
}

# _pmcfs_events FILE…: names of the events of a class. In a large class the file name is the event name; otherwise the
# file contains it.
_pmcfs_events() {
    if (($# > 500)); then printf '%s\n' "${@##*/}"; else awk 'FNR == 1 { print $2 }' "$@"; fi
}

# _pmcfs_names KIND TREE: prints all names of this kind (a word of -h). The shell completes files.
_pmcfs_names() {
    local class pmc CDPATH=
    case $1 in
    event | spec | counter) cd "$2/events" && for class in *; do _pmcfs_events "$class"/*; done | sort -u ;;
    'cpu|*' | 'list|*') cd "$2/admin" && printf '%s\n' cpu* | sed -n 's/^cpu\([0-9]\)/\1/p' | sort -n ;;
    'row|*') cd "$2/admin" && printf '%s\n' cpu[0-9]*/* | sed 's|.*/||' | sort -un ;;
    pid*) cd /proc && printf '%s\n' [0-9]* ;;
    pmc) cd "$2" && for pmc in */count; do [[ ! -e $pmc ]] || printf '%q\n' "$2/${pmc%/count}"; done ;;
    command) compgen -c | sort -u ;;
    'u|d') printf '%s\n' u d ;;
    KEY) printf '%s\n' rate count name ;;
    svg) printf '%s\n' svg png dumb ;;
    threshold*) echo threshold= ;;
    esac 2>/dev/null
}

# _pmcfs_offer KIND WORD…: offers the words that start with the last word of the command line, or with its part after
# the last comma.
_pmcfs_offer() {
    local kind=$1 cur=${*: -1} last name tree
    case $kind in
    spec) last=${cur##*[,=]} ;;
    event | list*) last=${cur##*,} ;;
    *) last=$cur ;;
    esac
    [[ $kind != event && $kind != spec && $kind != list* ]] || compopt -o nospace 2>/dev/null
    tree=$(_pmcfs_tree "${@:2}")
    while IFS= read -r name; do
        [[ $name != "$last"* ]] || COMPREPLY+=("${cur%"$last"}$name")
    done < <(_pmcfs_names "$kind" "$tree")
}

_pmcfs_tools() {
    local tool=${1##*/} words line letter kind i=1 rest kinds=
    local -A takes=()
    COMPREPLY=()
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} != *[[:blank:]] ]] || words+=('')
    case $tool in
    pmc-names | pmc-perfdata | pmc-flamegraph | pmc-plot) kinds=pmc ;;
    perfmon) kinds=counter ;;
    pmcstat | cputrack) kinds='command' ;;
    esac
    while [[ $tool != pmc-names && $tool != pmc-perfdata ]] && IFS= read -r line && [[ $line ]]; do
        [[ ! $line =~ ^\ \ -([A-Za-z])(\ ([^ ]+))?(\ \ |$) ]] || takes[${BASH_REMATCH[1]}]+="${BASH_REMATCH[3]} "
    done < <("$1" -h 2>/dev/null)
    while ((i + 1 < ${#words[@]})) && [[ ${words[i]} == -?* ]]; do
        rest=${words[i]#-}
        while [[ $rest ]]; do
            letter=${rest:0:1} rest=${rest:1}
            [[ ${takes[$letter]-} == *[^\ ]* ]] || continue
            [[ $rest ]] || ((i += 1))
            ((i + 1 < ${#words[@]})) || kinds=${takes[$letter]}
            break
        done
        ((i += 1))
    done
    if ((i + 1 < ${#words[@]})); then # after the first operand
        [[ $kinds == command ]] || return 0
        declare -F _command_offset >/dev/null && _command_offset "$i"
        return 0
    fi
    if ((i + 1 == ${#words[@]})) && [[ ${words[i]} == -* ]]; then
        for letter in "${!takes[@]}"; do [[ -$letter != "${words[i]}"* ]] || COMPREPLY+=("-$letter"); done
        return 0
    fi
    for kind in $kinds; do _pmcfs_offer "$kind" "${words[@]}"; done
    _pmcfs_unbroken "${words[-1]}"
}

# readline replaces only the part after the last : or = of a word.
_pmcfs_unbroken() {
    local broken=$1
    while [[ $broken ]] && [[ ${broken: -1} != [:=] || $COMP_WORDBREAKS != *"${broken: -1}"* ]]; do broken=${broken%?}; done
    COMPREPLY=("${COMPREPLY[@]#"$broken"}")
}

complete -o default -F _pmcfs_tools pmcstat pmccontrol cpustat cputrack perfmon pmctop pmc-names pmc-perfdata pmc-flamegraph pmc-plot
