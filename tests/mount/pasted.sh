# shellcheck shell=bash
# The examples of README.md, of the manual pages and of the README in the tree, pasted into a shell on a terminal.

# Blocks that are not pasted, by a word of each, and why.
PASTED_NOT='
examples/quickstart.sh  installs packages
meson setup             builds
podman                  wants an image, and an administrator that chose a limit
examples/               has a test of its own
packaging/              has a test of its own
pmcstat                 has a test of its own
pmcfs /pmc              mounts: the test has mounted
pmc-flamegraph          has a test of its own
systemctl               wants systemd; reattach.sh has the same with cgroups of its own'

# blocks FILE: the blocks to paste, each followed by a NUL.
blocks() {
    /usr/bin/python3 -I - "$1" "$PASTED_NOT" <<'P'
import re, sys
text = open(sys.argv[1]).read()
if sys.argv[1].endswith((".8", ".5", ".7")): # what makes a PMC or an instance
    found = re.findall(r"^\.Bd -literal[^\n]*\n(.*?)^\.Ed", text, re.S | re.M)
    found = [b for b in found if "mkdir " in b]
    found = [b.replace("\\e", "\\").replace("\\&", "").replace("\\(aq", "'").replace("\\-", "-") for b in found]
elif sys.argv[1].endswith(".md"):
    found = re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M)
else: # the tree's
    found = re.findall(r"(?:^  \S[^\n]*\n)+", text[:text.index("\nFiles (")], re.M)
without = [re.split(r"  +", line)[0] for line in sys.argv[2].splitlines() if line]
kept = [b for b in found if not any(word in b for word in without)]
assert kept, found
sys.stdout.write("".join(b + "\0" for b in kept))
P
}

# paste_into SHELL BLOCK: types each command at the prompt of the shell and prints the screen. Commands with an expected
# output must print something.
paste_into() {
    /usr/bin/python3 -I - "$1" "$2" <<'P'
import os, pty, re, select, sys, time
shell, block = sys.argv[1:]
pid, fd = pty.fork()
if not pid:
    os.environ.update(PS1="@" + "@ ", PS2="", TERM="dumb", HOME="/nonexistent")
    os.execvp(shell, [shell] + ["--norc", "--noprofile", "--noediting"] * (shell == "bash") + ["-i"])
reply = b""
def until(prompts):
    global reply
    end = time.time() + 40
    while reply.count(b"@@ ") < prompts:
        if time.time() > end or not select.select([fd], [], [], 1)[0] and time.time() > end:
            sys.exit("no prompt after: " + reply.decode(errors="replace"))
        try:
            reply += os.read(fd, 65536)
        except OSError:
            sys.exit("the shell has ended: " + reply.decode(errors="replace"))
until(1)
for i, command in enumerate(re.split(r"(?<!\\)\n", block.strip())):
    os.write(fd, command.strip().encode() + b"\n")
    until(i + 2)
os.write(fd, b"exit\n")
text = reply.decode(errors="replace").replace("\r", "")
for part in text.split("@@ ")[1:]:
    line, *shown = part.split("\n")
    if re.match("(cat|paste|grep|timeout|sort|perf|ls) ", line) and not "".join(shown).strip() and " > " not in line:
        sys.exit("nothing was printed by '%s': %s" % (line, text))
print(text)
P
}

# pasted SHELL FILE: each block prints something, and no error message of shells or tools.
pasted() {
    local block reply
    cat "$2" >/dev/null
    while IFS= read -r -d '' block; do
        block=${block//\/pmc/$M}
        reply=$(paste_into "$1" "$block") || die "$1, pasting '$block': $reply"
        if [[ $block == *pagefaults* ]]; then # this block shows a refusal
            like "$reply" 'EINVAL CS01 event: no event .pagefaults.'
            reply=${reply//echo: /}
            reply=${reply//write error: Invalid argument/}
            reply=${reply//I\/O error/}
        fi
        # a message about a background job that the block itself kills is not a failure
        reply=$(sed -E 's/^\[[0-9]+\] ?[-+]? +Terminated .*//' <<<"$reply")
        unlike "$reply" '(: (not found|No such|cannot|error)|I/O error|rror: |Terminated|Killed|Usage:|ermission denied)' \
            "$1, pasting '$block'"
        (($(grep -avc '@@ ' <<<"$reply") > 0)) || die "$1, pasting '$block', reply only: $reply"
        is "$(cd "$M" && echo *)" 'README admin counts events info instances metrics.prom' "left by '$block'"
    done < <(blocks "$2")
}

# transcript SHELL FILE BACKEND: pastes the ```console blocks. Blocks that name cycles are for a PMU (sim), others for
# this kernel (perf). A line of the page appears in the output of its command, with any numbers (perf prints 1K). `1234` is a process.
transcript() {
    /usr/bin/python3 -I - "$@" "$M" "${PID_OF[p]}" <<'P'
import os, pty, re, select, sys, time
shell, page, backend, mount, pid = sys.argv[1:]
def form(line):
    return " ".join(re.sub(r"[0-9]+(\.[0-9]+)?([KM]\b)?", "N", line).split())
blocks = re.findall(r"^ *```console\n(.*?)^ *```", open(page).read(), re.S | re.M)
blocks = [b for b in blocks if ("cycles" in b) == (backend == "sim")]
assert blocks, "no transcript for " + backend
child, fd = pty.fork()
if not child:
    os.environ.update(PS1="@" + "@ ", PS2="", TERM="dumb", HOME="/nonexistent")
    os.execvp(shell, [shell] + ["--norc", "--noprofile", "--noediting"] * (shell == "bash") + ["-i"])
def until_prompt():
    reply, end = b"", time.time() + 60
    while b"@@ " not in reply:
        if time.time() > end:
            sys.exit("no prompt after: " + reply.decode(errors="replace"))
        if select.select([fd], [], [], 1)[0]:
            reply += os.read(fd, 65536)
    return reply.decode(errors="replace").replace("\r", "").split("\n")[1:-1]
until_prompt()
os.write(fd, b"stty cols 1000 2> /dev/null\n")
until_prompt()
checked = 0
for block in blocks:
    for part in re.split(r"^ *\$ ", block, flags=re.M)[1:]:
        command, *expected = part.rstrip().split("\n")
        if re.search(r"pmcfs /pmc|umount", command):
            continue
        command = command.replace("/pmc", mount)
        command = re.sub(r"\b1234\b", pid, command)
        os.write(fd, command.encode() + b"\n")
        shown = until_prompt()
        forms = [form(line) for line in shown]
        for line in expected:
            if line.strip() == "...":
                continue
            checked += 1
            if form(line) not in forms:
                sys.exit("%s: '%s' did not print '%s' but: %s" % (shell, command, line, "\n".join(shown)))
        refused = "pagefaults >" in command.replace(mount, "")
        if not refused and re.search(r"not found|No such|[Ee]rror:|I/O error|[Dd]enied|Usage:", "\n".join(shown)):
            sys.exit("%s: '%s' printed: %s" % (shell, command, "\n".join(shown)))
os.write(fd, b"exit\n")
assert checked >= 2, "only %d lines were checked" % checked
P
    is "$(cd "$M" && echo *)" 'README admin counts events info instances metrics.prom' "left by $2 in $1"
}

#@ slow
t_readme_prints_its_output_in_bash_and_dash() {
    mount_pmcfs
    target_start p
    cd "$T" || die "no directory"
    local shell
    for shell in bash dash; do
        PATH=${TEST_FILE%/tests/*}/examples:$HELPERS:$PATH transcript $shell "${TEST_FILE%/tests/*}/README.md" perf
        like "$(head -c 300 "$T/cpu.svg")" '<svg '
        rm "$T/cpu.svg"
    done
}

#@ slow
t_readme_prints_its_output_on_a_pmu() {
    mount_sim
    target_start p
    transcript bash "${TEST_FILE%/tests/*}/README.md" sim
    transcript dash "${TEST_FILE%/tests/*}/README.md" sim
}

#@ slow
t_examples_of_the_manual_work_in_bash() {
    mount_pmcfs
    local page
    for page in pmcfs.8 pmcfs.5 pmcfs-log.5 pmcfs-access.7; do
        pasted bash "${TEST_FILE%/tests/*}/$page"
    done
}

#@ slow
t_examples_of_the_manual_work_in_dash() {
    mount_pmcfs
    local page
    for page in pmcfs.8 pmcfs.5 pmcfs-log.5 pmcfs-access.7; do
        pasted dash "${TEST_FILE%/tests/*}/$page"
    done
}

#@ slow
t_examples_of_the_trees_readme_work_in_bash_and_dash() {
    mount_pmcfs
    sed "s#$M#/pmc#g" "$M/README" >page
    pasted bash "$T/page"
    pasted dash "$T/page"
}

# A terminal session; the test mounts and unmounts.
#@ slow plain
t_tutorial_prints_its_output_in_bash_and_dash() {
    mount_pmcfs
    target_start p
    cd "$T" || die "no directory"
    local shell
    for shell in bash dash; do
        PATH=${TEST_FILE%/tests/*}/examples:$HELPERS:$PATH transcript $shell "${TEST_FILE%/tests/*}/examples/TUTORIAL.md" perf
        like "$(head -c 300 "$T/flame.svg")" '<svg '
        rm "$T/flame.svg"
    done
}
