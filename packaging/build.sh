#!/bin/sh
# Builds the Debian packages, by `dpkg-buildpackage -us -uc -b` in a copy of the tree; installs first what that
# needs and is missing.
#
#   sh packaging/build.sh [DIRECTORY]
#
# The packages are in DIRECTORY (build-packages), the copy in DIRECTORY/pmcfs. Nothing else is changed.
set -eu
export LC_ALL=C

root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${1:-$root/build-packages}"
cd "${1:-$root/build-packages}"

rm -rf pmcfs ./*.deb ./*.buildinfo ./*.changes
mkdir pmcfs
tar -C "$root" --exclude=./.git --exclude='./build*' -cf - . | tar -C pmcfs -xf -
cd pmcfs
if ! dpkg-checkbuilddeps 2>/dev/null; then
    sh tests/run.sh --call update_lists
    DEBIAN_FRONTEND=noninteractive apt-get -qy -o DPkg::Lock::Timeout=300 --no-install-recommends build-dep .
fi
dpkg-buildpackage -us -uc -b
