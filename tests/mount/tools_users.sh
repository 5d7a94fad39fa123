# shellcheck shell=bash disable=SC2016
# The tools find the mount, serve users without rights, and change nothing for the command that they run.

# shellcheck source=tests/mount/tools.sh
. "${TEST_FILE%/*}/tools.sh"

# other_mounts_end: unmounts the machine's mounts of pmcfs, in the mount namespace of this test.
other_mounts_end() {
    local place
    while read -r place; do umount -l "$place"; done < <(findmnt -rnt fuse.pmcfs -o TARGET)
}

t_tools_find_the_mount() {
    other_mounts_end
    mkdir "$T/a blank"
    T="$T/a blank" mount_pmcfs
    copy_tools
    unset PMC
    for how in 'pmcstat -p page-faults true' 'cputrack -c page-faults true' 'cpustat -c page-faults 0.1 1' \
        'perfmon -l 1 -c true page-faults' 'pmccontrol -l'; do
        # shellcheck disable=SC2086 # word splitting is intended
        tool $how >"$T/out" 2>&1 || die "$how: $(cat "$T/out")"
    done
    like "$(tool cpustat -h)" 'software events:'
    # A mount that the user cannot read is skipped.
    mkdir -m 700 "$T/closed"
    mkdir "$T/closed/pmc"
    mount --bind "$M" "$T/closed/pmc"
    like "$(as "$ALICE" "$T/bin/pmcstat" -p page-faults true 2>&1)" 'page-faults'
    umount "$T/closed/pmc"
}

t_without_a_mount_tools_name_the_command() {
    other_mounts_end
    copy_tools
    unset PMC
    local name rc reply
    for name in 'pmcstat -p cycles true' 'cputrack -c cycles true' 'cpustat -c cycles' 'perfmon cycles' 'pmccontrol -l'; do
        rc=0
        # shellcheck disable=SC2086 # word splitting is intended
        reply=$(tool $name 2>&1) || rc=$?
        is "$rc $reply" "1 ${name%% *}: no pmcfs is mounted: mount one as root with \`pmcfs /pmc\` or \`systemctl start pmcfs\`"
        rc=0
        # shellcheck disable=SC2086 # word splitting is intended
        reply=$(PMC=/nowhere tool $name 2>&1) || rc=$?
        is "$rc $reply" "1 ${name%% *}: no pmcfs that you may read is mounted on /nowhere: mount one as root with \`pmcfs /nowhere\` or \`systemctl start pmcfs\`"
    done
}

t_a_container_sees_its_instance() {
    type bwrap >/dev/null 2>&1 || skip 'no bubblewrap'
    other_mounts_end
    mount_pmcfs
    copy_tools
    unset PMC
    instance web "$ALICE"
    local box=(bwrap --unshare-pid --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib --symlink usr/lib64 /lib64
        --ro-bind /etc/alternatives /etc/alternatives
        --ro-bind "$T/bin" /tools --bind "$M/instances/web" /srv/counters --proc /proc --dev /dev --tmpfs /tmp --setenv TMPDIR /tmp)
    as "$ALICE" "${box[@]}" true || skip 'bubblewrap gets no namespaces here'
    like "$(as "$ALICE" "${box[@]}" /tools/pmcstat -p page-faults true 2>&1)" ' page-faults '
    # Both shells are process 2 of their PID namespace.
    mkfifo "$T/input"
    as "$ALICE" "${box[@]}" /tools/pmcstat -p page-faults cat <"$T/input" >"$T/first" 2>&1 &
    local first=$! input
    exec {input}>"$T/input"
    eventually 5 '[[ -e $M/instances/web/pmcstat-2-1 ]]'
    like "$(as "$ALICE" "${box[@]}" /tools/pmcstat -p page-faults true 2>&1)" ' page-faults '
    exec {input}>&-
    wait $first
    like "$(cat "$T/first")" ' page-faults '
    is "$(cd "$M/instances/web" && compgen -G '*-*')" ''
}

#@ slow
t_an_ordinary_user_counts() {
    mount_pmcfs
    copy_tools
    touch "$T/mine"
    chown "$ALICE" "$T/mine"
    for how in 'pmcstat -p page-faults true' 'pmcstat -j -r 2 -p page-faults true' 'pmcstat -i 100 -p page-faults true' \
        'pmcstat -P cpu-clock -o /dev/null true' 'cputrack -c page-faults true' 'perfmon -l 1 -c true page-faults' 'pmccontrol -l'; do
        # shellcheck disable=SC2086 # word splitting is intended
        as "$ALICE" "$T/bin/"$how >"$T/out" 2>&1 || die "$how: $(cat "$T/out")"
    done
    reply() { as "$ALICE" "$T/bin/$1" "${@:2}" 2>&1 </dev/null || echo "status $?"; }
    like "$(reply pmcstat -s page-faults -l 1)" '^pmcstat: -s page-faults: .*\(EPERM [A-Z][0-9]+\).status 71$'
    like "$(reply cpustat -c page-faults 1 1)" '^cpustat: -c page-faults: .*\(EPERM [A-Z][0-9]+\).status 1$'
    accepted "$M/admin/tunables/max_pmcs_per_user" 1
    as "$ALICE" mkdir "$M/only"
    like "$(reply pmcstat -p page-faults true)" '^pmcstat: cannot create a PMC: .*\(EDQUOT [A-Z][0-9]+\).status 71$'
    as "$ALICE" rmdir "$M/only"
    accepted "$M/admin/tunables/rootmode" 0755
    like "$(reply pmcstat -p page-faults true)" "^pmcstat: cannot create a PMC: you may not write to $M \(EACCES\): .*rootmode.*status 71\$"
    is "$(pmcs)" ''
}

t_commands_get_the_environment_the_input_and_the_signals_of_the_user() {
    mount_pmcfs
    copy_tools
    local how script='read -r line; echo "$name $status $child $line"; exec ls -m /proc/self/fd' expected
    export name=a status=b child='c d' # the tools have variables with these names
    expected=$(sh -c "$script" <<<input)
    for how in 'pmcstat -o /dev/null -p page-faults' 'pmcstat -w 9 -o /dev/null -p page-faults' 'cputrack -o /dev/null -c page-faults'; do
        # shellcheck disable=SC2086 # word splitting is intended
        is "$(tool $how sh -c "$script" <<<input)" "$expected" "$how"
        # shellcheck disable=SC2086 # word splitting is intended
        is "$(env --default-signal tool="$T/bin/${how%% *}" sh -c 'exec "$tool" "$@"' sh ${how#* } sed -n 's/^SigIgn:\s*//p' /proc/self/status)" \
            0000000000000000 "what $how ignores"
    done
    is "$(env --ignore-signal=INT "$T/bin/pmcstat" -o /dev/null -p page-faults sed -n 's/^SigIgn:\s*.*\(.\)/\1/p' /proc/self/status)" 6 \
        'what the user has ignored stays so'
}

# on_terminal COMMAND…: interrupts it with ^C after it printed "ready"; prints the screen, then the exit status.
on_terminal() {
    /usr/bin/python3 -I - "$@" <<'P'
import os, pty, sys
pid, fd = pty.fork()
if not pid:
    os.execvp(sys.argv[1], sys.argv[1:])
reply = b""
while True:
    try: new = os.read(fd, 65536)
    except OSError: break
    if b"ready" in new and b"ready" not in reply: os.write(fd, b"\x03")
    reply += new
print(reply.decode().replace("\r", ""))
print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
P
}

#@ slow
t_an_interrupt_reaches_the_command_and_the_counts_are_printed() {
    mount_pmcfs
    copy_tools
    on_terminal "$T/bin/pmcstat" -p page-faults sh -c 'echo ready; sleep 30; :' >"$T/out"
    like "$(cat "$T/out")" ' page-faults .*status 130$'
    eventually 5 "! pgrep -fx 'sleep 30' >/dev/null" # no child of the command is left
    on_terminal "$T/bin/pmcstat" -w 20 -p page-faults \
        /usr/bin/python3 -I -c 'import signal, sys, time
heard = []
signal.signal(signal.SIGINT, lambda *_: heard.append(1))
print("ready", flush=True)
while not heard: time.sleep(0.01)
time.sleep(0.5)
print("heard", len(heard), flush=True)
sys.exit(7)' >"$T/out"
    like "$(cat "$T/out")" 'heard 1.*# p/page-faults.*status 7$'
    on_terminal "$T/bin/cputrack" -v -T 0 -c page-faults sh -c 'echo ready; sleep 30; :' >"$T/out"
    like "$(cat "$T/out")" ' exit +[0-9]+.*status 0$'
    is "$(pmcs)" ''
}
