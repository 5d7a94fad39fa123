# shellcheck shell=bash disable=SC2016
# What the pages promise to work when pasted: INTERFACE section 2 and the tree's own README.

# paste LINE: by a plain shell, on this mount instead of /pmc.
paste_line() {
    PID=$$ sh -c "${1//\/pmc/$M}" >"$T/pasted" 2>&1 || die "failed: $1: $(cat "$T/pasted")"
}

t_count_the_page_faults_of_a_running_process() {
    mount_pmcfs
    paste_line 'mkdir /pmc/i && echo page-faults > /pmc/i/event && echo $PID > /pmc/i/target'
    paste_line 'cat /pmc/i/count'
    like "$(cat "$T/pasted")" '^[0-9]+$'
    paste_line 'rmdir /pmc/i'
}

t_a_command_with_all_its_children() {
    mount_pmcfs
    paste_line 'mkdir /pmc/c && echo event=task-clock start=exec descendants=on > /pmc/c/config'
    paste_line "sh -c 'echo self > /pmc/c/target && exec sh -c \"ls -R /etc; ls /bin\"' >/dev/null; cat /pmc/c/count; rmdir /pmc/c"
    [[ $(cat "$T/pasted") -gt 1000000 ]] || die "counted $(cat "$T/pasted") ns only"
}

t_two_events_on_one_cpu() {
    mount_pmcfs
    paste_line 'mkdir /pmc/s && echo context-switches page-faults > /pmc/s/event && echo cpu0 > /pmc/s/target'
    paste_line 'paste /pmc/s/event /pmc/s/count'
    like "$(cat "$T/pasted")" '^context-switches	[0-9]+
page-faults	[0-9]+$'
}

#@ slow
t_the_examples_of_readme_work_as_they_stand() {
    mount_pmcfs
    sed -n '/What can be counted/q; s/^  //p' "$M/README" >"$T/examples"
    grep -q mkdir "$T/examples" || die "no examples in README"
    bash -e "$T/examples"
}

t_readme_names_every_file() {
    mount_pmcfs
    for name in config event mode target ctl count detail series status error info events counts \
        metrics.prom admin; do
        grep -q "\b$name\b" "$M/README" || die "README does not mention $name"
    done
    between "$(wc -l <"$M/README")" 20 90
}
