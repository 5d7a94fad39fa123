#!/bin/sh
# Runs the two commands of README.md on a machine that has nothing: in a new root of Debian 12, minbase and git.
#
#   sh tests/fresh.sh [-k] [DIRECTORY [COMMAND]]
#
# debootstrap creates the root in DIRECTORY (build-fresh) with a clone of the last commit. An existing root is used again,
# and its clone is updated. The root is entered with pivot_root in a new mount and PID namespace (a chroot has no user
# namespaces), with /dev and /sys of this machine and only PATH in the environment. The mirror and the proxy are those of
# this machine's apt. COMMAND runs instead of the two commands. -k keeps the root.
# Needs root. The last line is that of tests/run.sh; the exit status is 0 when the commands succeed.
set -u
export LC_ALL=C

checkout=$(cd "$(dirname "$0")/.." && pwd)
release=bookworm

usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; }

die() {
    echo "fresh.sh: $*" >&2
    exit 1
}

# ---- the root ----

# sources FORMAT: prints a line for each archive of Debian $release in this machine's lists of apt.
sources() {
    apt-get indextargets --format "$1" 'Identifier: Packages' 'Component: main' 'Origin: Debian' \
        "Architecture: $(dpkg --print-architecture)" | grep " $release" | sort -u
}

make_root() {
    # shellcheck disable=SC2016 # apt's own variables
    mirror=$(sources '$(REPO_URI) $(RELEASE)' | sed -n "s/ $release\$//p" | head -n 1)
    [ "$mirror" ] || die "apt knows no archive of Debian $release here: run apt-get update first"
    eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy)"
    export http_proxy="${http_proxy-}" https_proxy="${https_proxy-}"
    debootstrap --variant=minbase --include=git "$release" "$fresh" "$mirror" || die 'debootstrap failed'
    # shellcheck disable=SC2016
    sources 'deb $(REPO_URI) $(RELEASE) main' >"$fresh/etc/apt/sources.list"
    apt-config dump | grep -iE '^Acquire::[a-z]+::(Proxy|CA)' >"$fresh/etc/apt/apt.conf.d/90proxy"
    cp /etc/resolv.conf /etc/hosts "$fresh/etc/"
}

clone() {
    if [ -d "$fresh/root/pmcfs/.git" ]; then
        git -C "$fresh/root/pmcfs" -c safe.directory='*' pull -q "$checkout" HEAD
    else
        git -c safe.directory='*' clone -q --no-local "$checkout" "$fresh/root/pmcfs"
    fi
}

# ---- inside ----

# enter COMMAND: the first process of the namespaces.
enter() {
    set -e
    mount --bind "$fresh" "$fresh"
    cd "$fresh"
    mount -t proc proc proc
    mount --rbind /sys sys
    mount --rbind /dev dev
    pivot_root . .
    umount -l .
    cd /root/pmcfs
    exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -c "$1" </dev/null
}

case ${1-} in
--enter)
    fresh=$2
    enter "$3"
    ;;
-h | --help)
    usage
    exit
    ;;
esac
keep=
[ "${1-}" != -k ] || {
    keep=yes
    shift
}
[ "$(id -u)" = 0 ] || die 'run this as root'
for program in debootstrap git; do
    command -v $program >/dev/null || die "$program is missing: apt-get install $program"
done
fresh=${1:-$checkout/build-fresh}
mkdir -p "$fresh" && fresh=$(cd "$fresh" && pwd) || exit 1
if [ ! -d "$fresh/root/pmcfs" ]; then
    [ -z "$(ls -A "$fresh")" ] || die "$fresh is not empty"
    make_root
fi
clone || die 'git cannot clone'
unshare --mount --pid --fork --kill-child --propagation private sh "$0" --enter "$fresh" \
    "${2:-sh examples/quickstart.sh && sh tests/run.sh}"
status=$?
[ "$keep" ] || rm -rf --one-file-system "$fresh"
exit $status
