#!/bin/sh
# Tests run.sh: a test whose process was killed, and each test that did not run after it, fails by name; and the
# variables of run.sh reach it through sudo.
set -eu
cd "$(dirname "$0")/.."
DIR=$(mktemp -d)
trap 'rm -rf "$DIR"' EXIT
chmod 755 "$DIR"
mkdir "$DIR/work" "$DIR/tests" "$DIR/bin"

die() {
    echo "$*"
    exit 1
}

# ---- killed tests ----

cat >"$DIR/work/list" <<'END'
asan/first|wide|needed_test asan/first 5 true
asan/fails|wide|needed_test asan/fails 5 false
asan/killed|wide|eval kill\ -KILL\ $$
asan/after|wide|needed_test asan/after 5 true
asan/later|alone|needed_test asan/later 5 true
END
: >"$DIR/work/results"
: >"$DIR/work/emulated"
runner() { WORK=$DIR/work PATTERN='^asan/' QUICK='' sh tests/run.sh --call "$@"; }
runner run_list wide 1 >"$DIR/output" 2>&1 || :
runner settle_missing
got=$(sed 's/ [0-9]* *\((.*\)\{0,1\}$/ \1/; s/ *$//' "$DIR/work/results" | sort)
expected='fail asan/after (it did not run)
fail asan/fails
fail asan/killed (it did not run)
fail asan/later (it did not run)
pass asan/first'
[ "$got" = "$expected" ] || die "results: $got"

# ---- sudo ----

cp tests/run.sh "$DIR/tests/"
# shellcheck disable=SC2016 # for the script
printf '#!/bin/sh\necho "$@"\n' >"$DIR/bin/sudo"
chmod 755 "$DIR/bin/sudo"
got=$(setpriv --reuid 1000 --regid 1000 --clear-groups env -i PATH="$DIR/bin:$PATH" HOME=/ TMPDIR=/some/where \
    sh "$DIR/tests/run.sh" -k -n unit/buf)
variables=$(sed -n 's/^# Environment: \(.*\)/\1/p; s/^# \(SECONDS_MAX.*\) Users.*/\1/p' tests/run.sh | grep -oE '\b[A-Z_]{5,}\b')
for variable in $variables; do
    echo "$got" | grep -qE "^--preserve-env=[A-Z_,]*\b$variable\b" || die "sudo drops $variable: $got"
done
# Programs with the set-user-ID bit start without TMPDIR.
echo "$got" | grep -qF " env TMPDIR=/some/where sh $DIR/tests/run.sh -k -n unit/buf" || die "sudo drops TMPDIR: $got"
