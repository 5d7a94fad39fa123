# shellcheck shell=bash disable=SC2016
# The README in the tree: its examples work, and it names the files.

#@ slow
t_the_examples_of_readme_work_unchanged() {
    mount_pmcfs
    sed -n '/^Files/q; s/^  //p' "$M/README" >"$T/examples"
    grep -q mkdir "$T/examples" || die "no examples in README"
    bash -e "$T/examples"
}

t_readme_names_every_file() {
    mount_pmcfs
    local path files=()
    mkdir "$M/a"
    for path in "$M"/*; do
        [[ $path -ef $M/a || $path -ef $M/README ]] || files+=("$path")
    done
    for path in "${files[@]}" "$M/a"/*; do
        grep -q "\b${path##*/}\b" "$M/README" || die "README does not mention $path"
    done
    between "$(wc -l <"$M/README")" 20 100
}
