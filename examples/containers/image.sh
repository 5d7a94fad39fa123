#!/bin/sh
# A container image of programs that are here, with the libraries that they need: a tar on standard output.
#
#   sh image.sh build/pmcfs "$(command -v busybox)" | podman import - localhost/pmcfs      (docker import)
#
# It needs no registry, and nothing of it is installed. busybox has its commands by name.
set -eu
[ $# != 0 ] || { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
mkdir "$dir/bin" "$dir/dev" "$dir/etc" "$dir/pmc" "$dir/proc" "$dir/run" "$dir/sys" "$dir/tmp"
chmod 755 "$dir"
chmod 1777 "$dir/tmp"
for program; do
    cp "$program" "$dir/bin/"
    ldd "$program" | grep -o '/[^ )]*' | while read -r library; do
        mkdir -p "$dir${library%/*}"
        cp -L "$library" "$dir$library"
    done
    case $program in
    */busybox) "$program" --list | while read -r name; do
        [ -e "$dir/bin/$name" ] || ln -s busybox "$dir/bin/$name"
    done ;;
    esac
done
tar -C "$dir" --owner 0 --group 0 -c .
