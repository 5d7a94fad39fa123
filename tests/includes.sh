#!/bin/sh
# Includes go one way: a file includes only modules that its module may use, in core only lower lines of
# tests/includes-order.
# shellcheck disable=SC2016 # awk text
set -u
export LC_ALL=C
cd "$(dirname "$0")/.." || exit 2

find core backends fs -name '*.[ch]' | sort | xargs awk '
function bad(text) { print FILENAME ":" FNR ": " $0 ": " text; wrong++ }
function only(what, files) { if (included ~ what && FILENAME !~ files) bad("only " files) }
# The level of core/NAME.c: that of its file, or of its name.
function level_of(file,    name, stem) {
    name = stem = file
    sub(/.*\//, "", name)
    sub(/.*\//, "", stem)
    sub(/\..*/, "", stem)
    return name in level ? level[name] : stem in level ? level[stem] : 0
}
function check_core(    to) {
    to = substr(included, 2, length(included) - 2)
    if (to !~ /^core\//) return bad("core includes only core")
    if (!level_of(FILENAME) || !level_of(to)) return bad("add it to tests/includes-order")
    if (substr(to, 1, length(to) - 2) == substr(FILENAME, 1, length(FILENAME) - 2)) return
    if (level_of(to) >= level_of(FILENAME)) bad("core includes only what is lower")
}
# Returns the position of the module of a file in the order of modules, or 0.
function room_of(file) {
    sub(/\/[^\/]*$/, "", file)
    return file in room ? room[file] : 0
}
function check_room(    to) {
    to = room_of(substr(included, 2, length(included) - 2))
    if (to && room_of(FILENAME) && to > room_of(FILENAME)) bad("a room includes only rooms before it in tests/includes-order")
}
BEGIN {
    while ((getline line < "tests/includes-order") > 0)
        if (line ~ /^room /) room[substr(line, 6)] = ++rooms
        else if (line !~ /^#/ && ++lines) {
            n = split(line, word, " ")
            for (i = 1; i <= n; i++) level[word[i]] = lines
        }
}
/perf_backend|sim_backend|linux_host/ && FILENAME !~ /^(fs\/program\/main\.c|backends\/)/ { bad("only fs/program/main.c names a backend") }
/^ *# *include / {
    included = $0
    sub(/^ *# *include */, "", included)
    sub(/ .*/, "", included)
    count++
    only("fuse", "^fs/")
    only("^\"fs/", "^fs/")
    only("perf_event\\.h|perfmon", "^backends/perf/")
    only("^\"backends/perf/", "^backends/perf/")
    only("^\"backends/sim/", "^backends/sim/")
    only("^\"backends/linux/", "^backends/linux/")
    only("^\"backends/backends\\.h", "^(fs/program/main\\.c|backends/)")
    if (included ~ /^"/) {
        path = substr(included, 2, length(included) - 2)
        if (path !~ /\// || path ~ /\.\./ || (getline line < path) < 0) bad("no such file below the root")
        close(path)
        if (FILENAME ~ /^core\//) check_core()
        check_room()
    }
}
END {
    print count " includes, " wrong + 0 " wrong"
    exit wrong > 0 || count < 300
}'
