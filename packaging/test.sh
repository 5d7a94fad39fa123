#!/bin/sh
# Builds the packages and tests them in an emulated machine that boots Debian's kernel and systemd. Reports "ok NAME",
# "not ok NAME" (followed by the indented output) or "skip NAME reason".
#
#   sh packaging/test.sh [DIRECTORY] | -l
#
# DIRECTORY (build-packages) gets the packages and the machine; -l lists the tests. Downloads stay in
# ${XDG_CACHE_HOME:-~/.cache}/pmcfs-packaging. SECONDS_MAX (2700) limits the time of the machine. The exit status is 1 if
# a test failed.
set -u
export LC_ALL=C

ROOT=$(cd "$(dirname "$0")/.." && pwd)
KIND=packaging ARCH=amd64 KERNEL_META=linux-image-cloud-amd64
TOOLS='qemu-system-x86_64:qemu-system-x86 debootstrap:debootstrap mke2fs:e2fsprogs lintian:lintian dh:debhelper
dpkg-buildpackage:dpkg-dev'
NEXT=9.9.9
# shellcheck source=tests/machine.sh
. "$ROOT/tests/machine.sh"

# Tests in order: those outside of the machine first, then those inside.
list_tests() {
    [ "${outside_listed-}" ] || printf 'packaging/%s\n' older_fuse_is_refused_in_a_sentence packages_are_built lintian_finds_nothing
    sed -n 's,^t_\([a-z0-9_]*\)() {.*,packaging/\1,p' "$ROOT"/packaging/inside/[1-9]-*.sh
}

case ${1-} in
-l)
    list_tests
    exit
    ;;
-*)
    sed -n '2,10s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
mkdir -p "${1:-$ROOT/build-packages}" && BUILD=$(cd "${1:-$ROOT/build-packages}" && pwd) || exit 2

# check NAME COMMAND…
check() {
    name=packaging/$1
    shift
    if "$@" >"$BUILD/printed" 2>&1; then
        echo "ok $name"
    else
        failed=1
        echo "not ok $name"
        tail -n 40 "$BUILD/printed" | sed 's/^/    /'
        return 1
    fi
}

need_amd64() {
    [ "$(dpkg --print-architecture)" = amd64 ] || cannot 'needs a machine of amd64'
}

# ---- the packages ----

# No overrides; informational tags are left out.
lint() {
    printed=$(lintian --allow-root --fail-on error,warning "$BUILD"/*.changes 2>&1)
    status=$?
    echo "$printed"
    [ "$status" = 0 ] && [ -z "$printed" ]
}

# build_next: builds the next version from the same copy, with a changed program and unit. Only changed files are
# compiled.
build_next() {
    cd "$BUILD/pmcfs" || return
    sed -i "s/^\(#define PMCFS_VERSION *\)\".*\"/\1\"$NEXT\"/" core/call.h
    sed -i '1i # The next version.' conf/pmcfs.service.in
    printf 'pmcfs (%s) unstable; urgency=medium\n\n  * The next one.\n\n -- %s  %s\n\n' "$NEXT" \
        "$(dpkg-parsechangelog -S Maintainer)" "$(dpkg-parsechangelog -S Date)" | cat - debian/changelog >changelog
    mv changelog debian/changelog
    dh_clean && DEB_BUILD_OPTIONS=noautodbgsym dpkg-buildpackage -us -uc -b -nc || return
    rm -rf "$BUILD/next"
    mkdir "$BUILD/next" && mv "$BUILD"/*_"$NEXT"_*.deb "$BUILD/next/"
}

# meson in a world where pkg-config knows only the fuse3 of an older Debian.
refuse_older_fuse() {
    mkdir -p "$BUILD/old"
    printf 'Name: fuse3\nDescription: an old one\nVersion: 3.10.5\n' >"$BUILD/old/fuse3.pc"
    rm -rf "$BUILD/old/build"
    printed=$(PKG_CONFIG_PATH=$BUILD/old meson setup "$BUILD/old/build" "$ROOT" 2>&1) && return 1
    echo "$printed"
    echo "$printed" | grep -q 'ERROR: .*: pmcfs needs fuse3 3.14 or newer, but here is 3.10.5: '
}

# ---- the machine ----

# Packages needed by the built packages and by the tests inside.
wanted_packages() {
    {
        printf '%s\n' systemd systemd-sysv kmod procps
        for deb in "$BUILD"/pmcfs_*.deb "$BUILD"/pmcfs-tools_*.deb; do
            dpkg-deb -f "$deb" Depends | tr , '\n'
        done
    } | sed 's|^ *||; s|[ (:\|].*||' | sort -u | grep -v '^pmcfs'
}

# A Debian like this one, without the packages: kept for the next time.
prepare_base() {
    . /etc/os-release
    wanted=$(wanted_packages | paste -s -d ,)
    base=$CACHE/base-$VERSION_CODENAME-$(echo "$wanted" | cksum | cut -d ' ' -f 1).tar.gz
    [ ! -e "$base" ] || return 0
    # shellcheck disable=SC2016
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $VERSION_CODENAME" 'Component: main' | head -n 1)
    rm -rf "$BUILD/root" "$CACHE"/base-*
    mkdir -p "$CACHE"
    debootstrap --variant=minbase --include="$wanted" "$VERSION_CODENAME" "$BUILD/root" ${mirror:+"$mirror"} ||
        cannot "cannot make a root of Debian $VERSION_CODENAME" || return
    rm -rf "$BUILD/root/var/cache/apt/archives" "$BUILD/root/var/lib/apt/lists"
    tar -C "$BUILD/root" -czf "$base.new" . && mv "$base.new" "$base"
}

# The tests run as the last service of a separate target, named in the kernel's command line.
place_tests() {
    mkdir packaging
    cp -r "$ROOT/packaging/inside" packaging/ && cp -r "$BUILD/next" packaging/next || return
    echo 1 >packaging/boot
    for unit in getty-static.service e2scrub_reap.service; do # take time and are not looked at
        ln -s /dev/null etc/systemd/system/$unit
    done
    cat >etc/systemd/system/packaging.target <<UNIT
[Unit]
Requires=multi-user.target packaging.service
After=multi-user.target
AllowIsolate=yes
UNIT
    cat >etc/systemd/system/packaging.service <<UNIT
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/sh /packaging/inside/run.sh
TTYPath=/dev/ttyS0
StandardOutput=tty
StandardError=tty
TimeoutStartSec=infinity
UNIT
}

# In the directory of the root, without systemd: as an image is made.
install_packages() {
    sh packaging/inside/list.sh >packaging/before && [ -s packaging/before ] &&
        cp "$BUILD"/pmcfs_*.deb "$BUILD"/pmcfs-tools_*.deb tmp/ &&
        chroot . sh -c 'dpkg -i /tmp/*.deb' && rm tmp/*.deb
}

make_image() {
    rm -rf "$BUILD/root" "$BUILD/disk"
    mkdir "$BUILD/root"
    cd "$BUILD/root" && tar -xf "$base" || return
    release=${KERNEL##*/linux-image-}
    install -D -m 644 "$KERNEL.fuse.ko" "lib/modules/$release/fuse.ko"
    chroot . depmod "$release"
    place_tests && install_packages || return
    mke2fs -q -t ext4 -d . "$BUILD/disk" 600M && cd "$BUILD" && rm -rf "$BUILD/root"
}

# boot SECONDS: prints the serial line; the machine boots several times. A kernel panic stops it.
boot() {
    timeout -k 5 "$1" qemu-system-x86_64 -smp 2 -m 768 -nic none -nographic -drive "file=$BUILD/disk,if=none,id=disk,format=raw,cache=unsafe" \
        -device nvme,drive=disk,serial=disk -kernel "$KERNEL" -append "root=/dev/nvme0n1 rw console=ttyS0 quiet \
        panic=-1 mitigations=off systemd.unit=packaging.target systemd.getty_auto=0 systemd.show_status=no" \
        </dev/null 2>&1 | stdbuf -o0 tr -d '\r'
}

failed=0
stage need_amd64
stage need_tools
check older_fuse_is_refused_in_a_sentence refuse_older_fuse
check packages_are_built sh "$ROOT/packaging/build.sh" "$BUILD" || exit
check lintian_finds_nothing lint
outside_listed=yes
stage build_next
stage prepare_base
stage prepare_kernel
stage make_image
boot "${SECONDS_MAX:-2700}" | tee "$BUILD/console" | report || failed=1
[ $failed = 0 ] && rm "$BUILD/disk"
