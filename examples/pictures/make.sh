#!/bin/sh
# Makes the pictures of README.md anew, on a mount of its own: sh examples/pictures/make.sh [BUILD], as root.
# BUILD (build) has pmcfs and pmc-names.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
PATH=$root/examples:$build/examples/pmc-names:$PATH
pmc=$(mktemp -d)

clean() {
    umount "$pmc" 2>/dev/null || umount -l "$pmc" 2>/dev/null || :
    rmdir "$pmc"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
"$build/pmcfs" "$pmc"

# Where perl, compiled without frame pointers, spends its time: words of all manuals.
mkdir "$pmc/perl"
echo event=cpu-clock freq=997 callchain=dwarf stack=16384 start=exec >"$pmc/perl/config"
# shellcheck disable=SC2016 # perl's
PMC=$pmc/perl sh -c 'echo self >"$PMC/target" && exec "$@"' sh perl -we '
    for my $file (glob "/usr/share/*/*/*") {
        open my $text, "<", $file or next;
        while (<$text>) { $seen{lc $1}++ while /([a-z]{3,})/gi }
    }
    print scalar(keys %seen), " words\n"'
pmc-flamegraph -w 900 -m 0.5 "$pmc/perl" >"$root/examples/pictures/flamegraph.svg"

# What sorting and packing cost, each tenth of a second.
mkdir "$pmc/sort"
echo event=task-clock event=page-faults interval=100 start=exec descendants=on >"$pmc/sort/config"
pmc-plot -r "$pmc/sort" >"$root/examples/pictures/plot.svg" &
PMC=$pmc/sort sh -c 'echo self >"$PMC/target" && exec sh -c "$1"' sh '
    for round in 1 2 3 4; do
        seq 100000 | sort -R | gzip >/dev/null
        sleep 1
    done'
wait $!
