# shellcheck shell=dash disable=SC2034
# The parts of an emulated arm64 machine with a PMU: Debian's arm64 packages (fetched once, unpacked,
# never installed), a cross build of pmcfs, an initramfs, and the boot. run.sh sources it, after ../machine.sh.
#
# Given: CACHE (downloads), BUILD (built files), ROOT (the checkout). qemu's cortex-a57
# has six programmable counters and a cycle counter with overflow interrupts; -icount shift=0 makes
# instructions countable: one is a nanosecond of virtual time, and idle time costs nothing.

DEVELOPMENT='libc6 libc6-dev linux-libc-dev libgcc-s1 libfuse3-3 libfuse3-dev libpfm4 libpfm4-dev libinih1 libinih-dev check
libsubunit0 libsubunit-dev zlib1g zlib1g-dev liblzma5 liblzma-dev libbz2-1.0
libcap-ng0 libcap-ng-dev uthash-dev'
MACHINE='busybox-static'
TOOLS='qemu-system-aarch64:qemu-system-arm aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu cpio:cpio dpkg-deb:dpkg
meson:meson ninja:ninja-build pkg-config:pkg-config'

need_arm64_lists() {
    if ! dpkg --print-foreign-architectures | grep -qx arm64; then
        dpkg --add-architecture arm64 2>/dev/null || cannot "cannot add Debian's arm64" || return
    fi
    apt-cache show linux-image-arm64:arm64 >/dev/null 2>&1 || sh "$ROOT/tests/run.sh" --call update_lists >/dev/null || :
}

# unpack DIRECTORY DEB…: unpacks the packages, if the list has changed.
unpack() {
    directory=$1
    shift
    [ "$(cat "$directory.list" 2>/dev/null)" != "$*" ] || return 0
    rm -rf "$directory" "$directory.list"
    mkdir -p "$directory"
    for deb in "$@"; do
        dpkg-deb -x "$deb" "$directory" || return
    done
    echo "$*" >"$directory.list"
}

# ---- the cross build ----

write_cross_file() {
    cat <<INI
[binaries]
c = 'aarch64-linux-gnu-gcc'
ar = 'aarch64-linux-gnu-ar'
strip = 'aarch64-linux-gnu-strip'
pkgconfig = 'pkg-config'
[properties]
pkg_config_libdir = ['$1/usr/lib/aarch64-linux-gnu/pkgconfig', '$1/usr/share/pkgconfig']
sys_root = '$1'
[built-in options]
c_args = ['--sysroot=$1']
c_link_args = ['--sysroot=$1']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
INI
}

# The programs that count and are counted are of this directory; meson knows nothing of them.
build_programs() {
    for program in load hold as; do
        aarch64-linux-gnu-gcc --sysroot="$BUILD/sysroot" -std=gnu11 -D_GNU_SOURCE -O2 -g -static -pthread -Wall -Wextra -Werror \
            -o "$BUILD/$program" "$ROOT/tests/guest/$program.c" || return
    done
}

build_all() {
    write_cross_file "$BUILD/sysroot" >"$BUILD/cross.new"
    cmp -s "$BUILD/cross.new" "$BUILD/arm64.ini" || {
        rm -rf "$BUILD/meson"
        mv "$BUILD/cross.new" "$BUILD/arm64.ini"
    }
    if [ ! -e "$BUILD/meson/build.ninja" ]; then
        rm -rf "$BUILD/meson"
        meson setup "$BUILD/meson" "$ROOT" --cross-file "$BUILD/arm64.ini" --werror \
            -Ddebug_reload=enabled || return
    fi
    ninja -C "$BUILD/meson" && build_programs
}

# ---- the machine ----

# pack FILE: writes the initramfs with the names of the selected tests. Library packages are copied completely.
pack() {
    tree=$BUILD/tree
    rm -rf "$tree"
    mkdir -p "$tree/lib/aarch64-linux-gnu" "$tree/bin" "$tree/tests" "$tree/proc" "$tree/sys" "$tree/dev" \
        "$tree/tmp" "$tree/etc" "$tree/root" "$tree/run" || return
    cp -P "$BUILD"/sysroot/lib/aarch64-linux-gnu/*.so* \
        "$BUILD"/sysroot/usr/lib/aarch64-linux-gnu/lib*.so.* "$tree/lib/aarch64-linux-gnu/" &&
        cp -P "$BUILD"/sysroot/lib/ld-linux-aarch64.so.1 "$tree/lib/" &&
        cp "$BUILD/machine/bin/busybox" "$BUILD/load" "$BUILD/hold" "$BUILD/as" \
            "$BUILD/meson/pmcfs" "$BUILD/meson/tests/io" "$tree/bin/" || return
    for program in unit host attach events record; do
        cp "$BUILD/meson/tests/$program" "$tree/tests/" || return
    done
    cp "$KERNEL.fuse.ko" "$tree/fuse.ko" && cp "$ROOT"/tests/guest/inside/*.sh "$tree/tests/" &&
        cp "$ROOT/tests/hardware.sh" "$tree/" &&
        install -m 755 "$ROOT/tests/guest/inside/init" "$tree/init" || return
    printf '%s:x:%d:%d::/root:/bin/sh\n' root 0 0 alice 1000 1000 bob 1001 1001 >"$tree/etc/passwd"
    printf '%s:x:%d:\n' root 0 alice 1000 bob 1001 >"$tree/etc/group"
    cp "$1" "$tree/tests/selected"
    (cd "$tree" && find . | cpio -o -H newc --quiet) | gzip -1 >"$BUILD/machine.img"
}

# boot SECONDS: prints the serial line. A kernel panic stops the machine.
boot() {
    timeout -k 5 "$1" qemu-system-aarch64 -M virt -cpu cortex-a57 -smp 2 -m 1024 -nic none -nographic \
        -no-reboot -icount shift=0,sleep=off -kernel "$KERNEL" -initrd "$BUILD/machine.img" \
        -append "console=ttyAMA0 quiet panic=-1 oops=panic print-fatal-signals=1" </dev/null 2>&1 | stdbuf -o0 tr -d '\r'
}
