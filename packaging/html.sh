#!/bin/sh
# Writes the manual pages as HTML, with links between them. packaging/html/ has the result, for readers of
# the repository; sources/manual checks that it is current. It is not installed: man(1) shows the pages.
#
# usage: html.sh [DIRECTORY]
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "${1:-$root/packaging/html}"
out=$(cd "${1:-$root/packaging/html}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# mandoc links to pages of its directory by the first pattern, and to others by the second.
cp "$root"/*.[0-9] "$root"/examples/*.[0-9] "$root"/examples/*/*.[0-9] "$work"
cd "$work"
for page in *.[0-9]; do
    mandoc -I os=pmcfs -T html -O 'toc,man=%N.%S.html;https://man7.org/linux/man-pages/man%S/%N.%S.html' "$page" |
        sed 's/[[:space:]]*$//' >"$out/$page.html"
done
