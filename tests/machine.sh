# shellcheck shell=dash disable=SC2034,SC2154
# Common functions of the emulated machines of guest/ and packaging/: Debian packages, fetched once, a kernel, and
# reports of tests inside. Their run scripts source it.
#
# Given: KIND (first part of the names of tests), ROOT (the checkout), BUILD (built files), ARCH, KERNEL_META (the
# metapackage of the newest kernel), TOOLS (PROGRAM:PACKAGE …), and the function list_tests.

# A service or an empty environment has no HOME. CACHE: downloaded files.
CACHE=${XDG_CACHE_HOME:-${HOME:-$(getent passwd "$(id -u)" | cut -d : -f 6)}/.cache}/pmcfs-$KIND

# cannot REASON: skips all tests, because this host lacks something.
cannot() {
    echo "$*" >"$BUILD/skip"
    return 1
}

# stage COMMAND…: runs a step. If it cannot run here, all tests are skipped; if it fails, the run fails.
stage() {
    rm -f "$BUILD/skip"
    "$@" >"$BUILD/stage.log" 2>&1 && return
    if [ -e "$BUILD/skip" ]; then
        list_tests | sed "s|\$| $(cat "$BUILD/skip")|; s/^/skip /"
        exit 0
    fi
    echo "not ok $KIND/machine"
    echo "    $1 failed:"
    tail -n 40 "$BUILD/stage.log" | sed 's/^/    /'
    exit 1
}

# ---- Debian packages ----

# missing_tools: the packages of the programs that are not there.
missing_tools() {
    for pair in $TOOLS; do
        command -v "${pair%%:*}" >/dev/null || printf ' %s' "${pair##*:}"
    done
}

need_tools() {
    missing=$(missing_tools)
    [ "$missing" ] || return 0
    [ "$(id -u)" = 0 ] || cannot "needs$missing" || return
    echo "# installing$missing"
    # shellcheck disable=SC2086 # word splitting is intended
    { sh "$ROOT/tests/run.sh" --call update_lists && DEBIAN_FRONTEND=noninteractive \
        apt-get -qy -o DPkg::Lock::Timeout=300 install --no-install-recommends $missing; } >"$BUILD/install.log" 2>&1
    missing=$(missing_tools)
    [ -z "$missing" ] || cannot "cannot install$missing"
}

# fetch PACKAGE…: their files as apt would choose them today, into $CACHE/deb; DEBS lists them. Old lists name
# files that the mirror no longer has.
fetch() {
    DEBS=
    mkdir -p "$CACHE/deb"
    fetch_missing "$@" || { sh "$ROOT/tests/run.sh" --call update_lists && fetch_missing "$@"; }
    for package in "$@"; do
        file=$(file_of "$package")
        [ -e "$CACHE/deb/$file" ] && [ "$file" ] || file=$(cd "$CACHE/deb" && find . -name "${package}_*.deb" |
            sed 's,^\./,,' | sort -V | tail -n 1)
        [ "$file" ] || cannot "cannot download $package for $ARCH" || return
        DEBS="$DEBS $CACHE/deb/$file"
    done
}

fetch_missing() {
    wanted=$(printf "%s:$ARCH " "$@")
    # shellcheck disable=SC2086 # word splitting is intended
    uris=$(apt-get download --print-uris $wanted 2>/dev/null) || return
    wanted=
    for package in "$@"; do
        file=$(file_of "$package")
        [ "$file" ] || return
        [ -e "$CACHE/deb/$file" ] || wanted="$wanted $package:$ARCH"
    done
    # shellcheck disable=SC2086
    [ -z "$wanted" ] || fetch_files $wanted
}

# file_of PACKAGE: its name in uris.
file_of() {
    echo "$uris" | awk -v start="${1}_" 'index($2, start) == 1 { print $2 }'
}

# An interrupt leaves no half file.
fetch_files() {
    partial=$(mktemp -d "$CACHE/partial.XXXXXX") || return
    (cd "$partial" && apt-get download -qq "$@" >/dev/null 2>&1) && mv "$partial"/*.deb "$CACHE/deb/"
    status=$?
    rm -rf "$partial"
    return $status
}

# The kernel package that KERNEL_META depends on now, or else the last fetched one.
kernel_package() {
    package=$(apt-cache depends "$KERNEL_META:$ARCH" 2>/dev/null |
        sed -n 's/.*Depends: \(linux-image-[^:]*\).*/\1/p' | head -n 1)
    [ "$package" ] ||
        package=$(find "$CACHE/deb" -name 'linux-image-*' | sed 's,.*/,,; s,_.*,,' | sort -V | tail -n 1)
    echo "${KERNEL_PACKAGE:-$package}"
}

# KERNEL is its file, KERNEL.fuse.ko the module.
prepare_kernel() {
    kernel=$(kernel_package)
    [ "$kernel" ] || cannot "no kernel for $ARCH can be had" || return
    if [ ! -e "$CACHE/kernel/$kernel" ] || [ ! -e "$CACHE/kernel/$kernel.fuse.ko" ]; then
        fetch "$kernel" || return
        mkdir -p "$CACHE/kernel"
        whole=$(mktemp -d "$CACHE/partial.XXXXXX") || return
        # shellcheck disable=SC2086 # one file
        dpkg-deb -x $DEBS "$whole" &&
            find "$whole" -name fuse.ko -exec cp {} "$CACHE/kernel/$kernel.fuse.ko" \; &&
            cp "$whole"/boot/vmlinuz-* "$CACHE/kernel/$kernel"
        status=$?
        rm -rf "$whole"
        [ $status = 0 ] || cannot "the package $kernel holds no kernel with FUSE" || return
    fi
    KERNEL=$CACHE/kernel/$kernel
}

# ---- the console ----

# report: reads lines "@@ WORDS" about tests and, after a failure, the output of the test. A test without a line means
# that the machine stopped first.
report() {
    awk -v kind="$KIND" -v tests="$(list_tests | tr '\n' ' ')" '
    /^@@ begin / { now = $3; next }
    /^@@ end$/ { ended = 1; next }
    /^@@ (ok|not|skip) / {
        sub(/^@@ /, ""); name = $1 == "not" ? $3 : $2
        print; fflush(); reported[name] = 1; failed += $1 == "not"; now = ""
        next
    }
    /^    / { print; fflush(); next }
    { tail[++lines % 40] = $0 }
    END {
        n = split(tests, all, " ")
        for (i = 1; i <= n; i++)
            if (!reported[all[i]]) {
                print "not ok " all[i]
                print all[i] == now ? "    the machine stopped in it; its console:" : "    it did not run"
                failed++
                for (j = lines - 39; all[i] == now && j <= lines; j++)
                    if (j > 0) print "    " tail[j % 40]
            }
        if (!ended) {
            print "not ok " kind "/machine"
            print "    it did not come to an end"
            for (j = lines - 39; now == "" && j <= lines; j++)
                if (j > 0) print "    " tail[j % 40]
        }
        exit failed > 0 || !ended
    }' | awk '{ print; fflush() } /^not ok/ { failed = 1 } END { exit failed }'
}
