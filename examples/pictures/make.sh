#!/bin/sh
# Creates the pictures of the pages again, on its own mounts: sh examples/pictures/make.sh [BUILD], as root.
# BUILD (default: build) contains pmcfs, pmc-names and pmctop. Needs perl, gnuplot and tmux.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "${1:-$root/build}" && pwd)
PATH=$root/examples:$build/examples/pmc-names:$build/examples/pmctop:$PATH
pmc=$(mktemp -d)

clean() {
    umount "$pmc" 2>/dev/null || umount -l "$pmc" 2>/dev/null || :
    rmdir "$pmc"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
"$build/pmcfs" "$pmc"

# Flame graph of perl, compiled without frame pointers, counting the words of all manuals.
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

# CPU time and page faults of sort and gzip, every tenth of a second.
mkdir "$pmc/sort"
echo event=task-clock event=page-faults interval=100 start=exec descendants=on >"$pmc/sort/config"
pmc-plot -r "$pmc/sort" >"$root/examples/pictures/plot.svg" &
PMC=$pmc/sort sh -c 'echo self >"$PMC/target" && exec sh -c "$1"' sh '
    for round in 1 2 3 4; do
        seq 100000 | sort -R | gzip >/dev/null
        sleep 1
    done'
wait $!

# The screen of pmctop, as text in an SVG. The mount has a simulated PMU, so it looks alike everywhere.
umount "$pmc"
"$build/pmcfs" -o backend=sim,sim_cpus=2,sim_rows=4 "$pmc"
sleep 100 & web=$!
sleep 100 & job=$!
mkdir "$pmc/web" "$pmc/job" "$pmc/cpus"
echo "event=cycles,instructions target=$web" >"$pmc/web/config"
echo "event=instructions descendants=on target=$job" >"$pmc/job/config"
echo 'event=cycles target=cpu0-1' >"$pmc/cpus/config"
tmux -L pmcfs-picture new-session -d -x 92 -y 9 "PMC=$pmc pmctop -d 1"
sleep 3.5
tmux -L pmcfs-picture capture-pane -p >"$pmc.screen"
tmux -L pmcfs-picture send-keys Tab
sleep 1.5
tmux -L pmcfs-picture capture-pane -p >>"$pmc.screen"
tmux -L pmcfs-picture kill-server
kill "$web" "$job"
sed "s,$pmc,/pmc,g" "$pmc.screen" | awk '
    { gsub(/&/, "\\&amp;"); gsub(/</, "\\&lt;"); gsub(/ +$/, ""); line[NR] = $0 }
    END {
        while (line[NR] == "") NR--
        printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"790\" height=\"%d\">\n", NR * 18 + 16
        print "<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#1e1e1e\"/>"
        print "<g font-family=\"monospace\" font-size=\"14\" fill=\"#e0e0e0\" xml:space=\"preserve\">"
        for (i = 1; i <= NR; i++) printf "<text x=\"10\" y=\"%d\" xml:space=\"preserve\">%s</text>\n", i * 18 + 4, line[i]
        print "</g></svg>"
    }' >"$root/examples/pictures/pmctop.svg"
rm "$pmc.screen"
