# shellcheck shell=bash disable=SC2016
# Completion in bash and zsh, with lines typed on a pseudoterminal.

# shellcheck source=tests/mount/tools.sh
. "${TEST_FILE%/*}/tools.sh"

# typed SHELL LINE: prints the line after Tab, in an interactive bash or zsh.
typed() {
    PATH=$T/bin:$PATH PMC=$M /usr/bin/python3 -I - "$T" "${TEST_FILE%/tests/*}/examples/completion" "$@" <<'P'
import os, pty, select, sys, time
home, files, shell, line = sys.argv[1:]
begin = {
    "bash": ["source '%s/pmcfs-tools.bash'" % files, "bind -x '\"\\C-x\": echo \"<<$READLINE_LINE>>\"'"],
    "bash-completion": ["source /usr/share/bash-completion/bash_completion", "bind -x '\"\\C-x\": echo \"<<$READLINE_LINE>>\"'"],
    "zsh": ["fpath=('%s' $fpath)" % files, "autoload -Uz compinit; compinit -u -D", "tell() { print -r -- \"<<$BUFFER>>\" }",
            "zle -N tell; bindkey '^X' tell"],
}[shell]
pid, fd = pty.fork()
if not pid:
    os.environ.update(TERM="dumb", HOME="/nonexistent", XDG_DATA_DIRS=home + "/share", PS1="@ ")
    os.execvp(shell[:4].rstrip("-"), [shell[:4].rstrip("-")] + (["-f", "-i"] if shell == "zsh" else ["--norc", "--noprofile", "-i"]))
printed = ""
def until(what):
    global printed
    end = time.time() + 60
    while what not in printed:
        if time.time() > end:
            sys.exit("no '%s' in: %s" % (what, printed))
        if select.select([fd], [], [], 1)[0]:
            printed += os.read(fd, 65536).decode(errors="replace")
for command in begin:
    os.write(fd, (command + "; echo rea''dy\n").encode())
    until("ready\r")
    printed = ""
os.write(fd, line.encode() + b"\t\x18")
until(">>")
print(printed[printed.rindex("<<") + 2:printed.rindex(">>")].rstrip())
P
}

# completes SHELL: checks the completions that bash and zsh have in common.
completes() {
    mount_sim sim_cpus=1,sim_rows=1
    copy_tools
    ln -s "${TEST_FILE%/tests/*}"/examples/pmc-{plot,flamegraph} "$T/bin/"
    ln -s "$HELPERS/pmctop-$VARIANT" "$T/bin/pmctop"
    with_tracefs
    mkdir "$T/directory-of-mine" "$M/mine"
    touch "$T/result-of-mine"
    printf '#!/bin/sh\n' >"$T/bin/command-of-mine"
    chmod +x "$T/bin/command-of-mine"
    local line
    for line in 'pmcstat -p page-f|aults' 'pmcstat -p cycles,instr|uctions' 'pmcstat -d -w 1 -s page-f|aults' 'pmcstat -dp page-f|aults' \
        'pmcstat -u page-f|aults' 'cputrack -c cycles,instr|uctions' 'cpustat -c pic0=instr|uctions' 'perfmon page-f|aults' \
        'pmcstat -p metric/ip|c' 'pmcstat -p cycles command-of-m|ine' 'cputrack -c cycles command-of-m|ine' \
        "pmcstat -o $T/resu|lt-of-mine" "pmc-names $M/mi|ne" "pmccontrol -M $T/dir|ectory-of-mine/" 'pmcstat -f thr|eshold=' \
        'pmctop -s co|unt' 'pmc-plot -r -t d|umb' "pmc-plot $M/mi|ne" "pmc-flamegraph -w 300 $T/resu|lt-of-mine" \
        'pmccontrol -c |0' 'pmccontrol -c 0 -d |0' 'pmcstat -p nosuch|'; do
        is "$(typed "$1" "${line%%|*}")" "${line/|/}" "$1"
    done
}

#@ slow plain
t_bash_completes_options_events_and_files() {
    completes bash
    # For readline a colon separates words.
    unmount_pmcfs
    mount_pmcfs
    is "$(typed bash 'pmcstat -p page-faults,sched:sched_swit')" 'pmcstat -p page-faults,sched:sched_switch'
}

#@ slow plain
t_zsh_completes_options_events_and_files() {
    completes zsh
    unmount_pmcfs
    mount_pmcfs
    is "$(typed zsh 'pmcstat -p page-faults,sched:sched_swit')" 'pmcstat -p page-faults,sched:sched_switch'
}

#@ plain
t_bash_completion_loads_it_by_itself() {
    [[ -e /usr/share/bash-completion/bash_completion ]] || skip 'no bash-completion'
    mount_sim
    copy_tools
    mkdir -p "$T/share/bash-completion/completions"
    cp "${TEST_FILE%/tests/*}/examples/completion/pmcfs-tools.bash" "$T/share/bash-completion/completions/pmcstat"
    is "$(typed bash-completion 'pmcstat -p page-f')" 'pmcstat -p page-faults'
    # Arguments of the measured command are completed as those of the command.
    touch "$T/result-of-mine"
    is "$(typed bash-completion "pmcstat -p page-faults ls -l $T/resu")" "pmcstat -p page-faults ls -l $T/result-of-mine"
}

# Calls the completion function with COMP_WORDS as readline sets them.
t_bash_offers_each_option_of_the_help() {
    mount_sim
    copy_tools
    local name
    for name in $TOOLS; do
        # shellcheck disable=SC2031 # in a subshell
        PATH=$T/bin:$PATH bash -c '. "$1"
            COMP_WORDS=("$2" -) COMP_CWORD=1 COMP_LINE="$2 -" COMP_POINT=$((${#2} + 2))
            _pmcfs_tools "$2" - "$2"
            printf "%s\n" "${COMPREPLY[@]}"' bash "${TEST_FILE%/tests/*}/examples/completion/pmcfs-tools.bash" "$name" | sort >"$T/offered"
        is "$(paste -sd ' ' "$T/offered")" \
            "$(tool "$name" -h | sed -n '/^$/q; s/^  \(-[A-Za-z]\) .*/\1/p' | sort -u | paste -sd ' ')" "$name"
    done
}

# bash inserts an offered word into the line without quoting it.
t_bash_offers_a_path_quoted() {
    mkdir -p "$T/a;b \$(c)/mine"
    touch "$T/a;b \$(c)/mine/count"
    # shellcheck disable=SC2031 # in a subshell
    is "$(PMC="$T/a;b \$(c)" bash -c '. "$1"
        COMP_WORDS=(pmc-names "") COMP_CWORD=1 COMP_LINE="pmc-names " COMP_POINT=10
        _pmcfs_tools pmc-names "" pmc-names
        printf "%s\n" "${COMPREPLY[@]}"' bash "${TEST_FILE%/tests/*}/examples/completion/pmcfs-tools.bash")" \
        "$T/a\\;b\\ \\\$\\(c\\)/mine"
}
