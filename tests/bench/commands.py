"""Measures that compare pmcfs with commands that a user would type. Both sides of a row include the start of their programs,
or neither does."""
import os, shutil, subprocess, time

from results import measure, note, row
from samplers import PerfRecord, PmcSamples, burn, in_turn, sampled
from things import BUILDS, WORK, Mounts, Targets, amount, client, cpu_ns, limits, stopped, waited_ms

PAIR = 'page-faults,context-switches'


def script(name, text):
    path = os.path.join(WORK, name)
    with open(path, 'w', encoding='ascii') as file:
        file.write(text)
    return 'sh ' + path


def has_perf(name):
    if not shutil.which('perf'):
        note(f'{name}: no perf')
    return shutil.which('perf')


@measure('threads')
def threads():
    """a shell creates a PMC and writes a process of 1,000 threads to target / perf stat -p, until it starts its command; then
    all threads are counted"""
    if not has_perf('threads'):
        return
    n = amount(1000, 1000, 10)
    attach = script('attach', 'mkdir "$1/new" && echo page-faults >"$1/new/event" && echo "$2" >"$1/new/target" && '
                              'echo counts && rmdir "$1/new"\n')
    with Targets(n, threads=True) as (target,), Mounts() as mounts:
        ns, p99, _ = client({**{name: f'until:{attach} {m.dir} {target}' for name, m in mounts.items()},
                             'perf stat -p': f'until:perf stat -o /dev/null -e page-faults -p {target} echo counts'},
                            amount(20, 8, 1), 1)
        row(f'until {n} threads are counted', 'ms', ns, 'perf stat -p', '<= 2', p99=p99, scale=1e-6,
            page='count 1,000 threads, until all are counted')


@measure('once')
def once():
    """page faults of a process: a shell creates a PMC, attaches it, reads count and removes it / perf stat -p PID true"""
    if not has_perf('once'):
        return
    count = script('once', 'mkdir "$1/new" && echo event=page-faults target="$2" >"$1/new/config" && cat "$1/new/count" && '
                           'rmdir "$1/new"\n')
    with Targets(1) as (target,), Mounts() as mounts:
        ns, p99, _ = client({**{name: f'run:{count} {m.dir} {target}' for name, m in mounts.items()},
                             'perf stat -p': f'run:perf stat -o /dev/null -e page-faults -p {target} true'},
                            amount(30, 10, 1), 1)
        row('attach to a process, count, detach', 'ms', ns, 'perf stat -p', '<= 1', p99=p99, scale=1e-6,
            page='attach to a process, count once, detach')


def running_us(command, server, interval, seconds):
    """Processor time for each interval, of a program that already runs, and of a process that serves it."""
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    pids = [program.pid] + ([server] if server else [])
    try:
        time.sleep(max(0.3, 2 * interval))  # perf has opened its events
        before = sum(cpu_ns(pid)[0] for pid in pids)
        time.sleep(seconds)
        return (sum(cpu_ns(pid)[0] for pid in pids) - before) / 1e3 / (seconds / interval)
    finally:
        stopped(program)


def polled(mounts, files, perf, interval):
    """Processor time of each reading: {file: {alternative: [µs]}}"""
    seconds = amount(20, 10, 2) * interval
    used = {file: {name: [] for name in [*mounts, 'perf stat']} for file in files}
    for turn in range(amount(5, 3, 1)):
        for name in in_turn([*mounts, 'perf stat'], 1, turn):
            if name in mounts:
                for file in files:
                    command = [os.path.join(WORK, 'client'), '-r', '1', '-n', '1',
                               f'every:{interval * 1000:.0f},1000,{mounts[name].dir}/{file}']
                    used[file][name].append(running_us(command, mounts[name].server, interval, seconds))
            else:
                us = running_us(['perf', 'stat', '-a', '-I', f'{interval * 1000:.0f}', '-o', '/dev/null', '-e', *perf],
                                None, interval, seconds)
                for file in files:
                    used[file][name].append(us)
    return used


@measure('interval')
def interval():
    """two events of all CPUs, ten times a second, by programs that already run: a client that opens and reads counts, or
    metrics.prom / perf stat -a -I 100; processor time of each reading"""
    if not has_perf('interval'):
        return
    with Mounts() as mounts:
        for mount in mounts.values():
            mount.pmc('all', f'event={PAIR} target=all')
        for file, used in polled(mounts, ('counts', 'metrics.prom'), [PAIR], 0.1).items():
            row(f'2 events of all CPUs, {file}', 'µs CPU', used, 'perf stat', '<= 1',
                page=f'two events of all CPUs, a read of `{file}`, processor time')


def cgroups_made(n):
    """Paths of new cgroups of version 2, as in /proc/PID/cgroup. run.sh removes them."""
    with open('/proc/self/mounts', encoding='utf-8') as file:
        root = next((words[1] for words in map(str.split, file) if words[2] == 'cgroup2'), None)
    if not root:
        return None, []
    paths = [f'/{os.path.basename(WORK)}/{i}' for i in range(n)]
    try:
        for path in paths:
            os.makedirs(root + path)
    except OSError as error:
        note(f'cgroups: {error.strerror}')
        return None, []
    return root, paths


@measure('cgroups')
def cgroups():
    """two events of each of 200 cgroups, by programs that already run: a client that opens and reads counts / perf stat
    --for-each-cgroup; processor time of each reading"""
    n, every = amount(200, 200, 3), amount(0.5, 0.5, 0.1)
    root, paths = cgroups_made(n)
    if not root or not has_perf('cgroups'):
        return note('cgroups: no cgroup of version 2 can be created here')
    with Targets(n) as targets, Mounts(limits(n)) as mounts:
        for path, target in zip(paths, targets):
            with open(f'{root}{path}/cgroup.procs', 'w', encoding='ascii') as file:
                file.write(str(target))
        for mount in mounts.values():
            for i, path in enumerate(paths):
                mount.pmc(f'g{i:04}', f'event={PAIR} target=cgroup:{path}')
        used = polled(mounts, ('counts',), [PAIR, '--for-each-cgroup', ','.join(path[1:] for path in paths)], every)
        row(f'2 events of {n} cgroups, counts', 'ms CPU', used['counts'], 'perf stat', '<= 1', scale=1e-3,
            page='two events of 200 cgroups, a read of `counts`, processor time')


@measure('record')
def record():
    """call chains of all CPUs at 997 Hz: a PMC with cat of samples.perf to a file / perf record -F 997 -g -a; processor time
    with start and end, and bytes for each sample"""
    if not has_perf('record'):
        return
    os.environ['PERF_BUILDID_DIR'] = os.path.join(WORK, 'buildid')
    seconds = amount(10, 3, 0.3)
    with Mounts() as mounts:
        makers = {'perf record': lambda: PerfRecord(997, True, ()),
                  **{name: lambda m=mount: PmcSamples(m, 997, True) for name, mount in mounts.items()}}
        cpu, size = {name: [] for name in makers}, {name: [] for name in makers}
        for maker in makers.values():  # fills perf's cache of build-ids
            sampled(maker(), 0.3)
        for name in in_turn(makers, amount(4, 3, 1)):
            sampler, _ = sampled(makers[name](), seconds)
            cpu[name].append(sampler.cpu_ms)
            size[name].append(os.path.getsize(sampler.data) / sampler.samples)
        row(f'call chains at 997 Hz, {seconds} s', 'ms CPU', cpu, 'perf record', '<= 1',
            page='call chains of all CPUs at 997 Hz, ten seconds, processor time')
        row('call chains at 997 Hz, each sample', 'bytes', size, 'perf record', '<= 1.1',
            page='the same, bytes for each sample')


def names_program():
    """pmc-names next to the measured program, in its build directory, or installed."""
    where = os.path.dirname(BUILDS['pmcfs'])
    for path in (where + '/pmc-names', where + '/examples/pmc-names/pmc-names'):
        if os.access(path, os.X_OK):
            return path
    return shutil.which('pmc-names')


# As stackcollapse-perf.pl does: frames of a sample from the outermost to the innermost, and how often they occur.
COLLAPSE = r'''/^$/ { if (stack != "" || comm != "") n[comm stack]++; comm = stack = ""; next }
/^[^ \t]/ { comm = $1; next }
{ frame = $2; sub(/\+0x.*/, "", frame); stack = ";" frame stack }
END { for (s in n) print s, n[s] }
'''


@measure('folded')
def folded():
    """recorded call chains to folded stacks with function names: pmc-names of samples.folded / perf script and awk, as
    stackcollapse-perf.pl; processor time for each sample, with the starts of the programs"""
    names = names_program()
    if not names or not has_perf('folded'):
        return note('folded: no pmc-names')
    rate, seconds = amount(5000, 5000, 1000), amount(2, 1, 0.2)
    collapse, text = script('collapse', COLLAPSE)[3:], os.path.join(WORK, 'folded')
    with Mounts('logbuffersize=2048') as mounts, open(os.devnull, 'w', encoding='ascii') as null:
        with PerfRecord(rate, True) as recorded:
            burn(seconds)
        perf = f'perf script -F comm,ip,sym -i {recorded.data} | awk -f {collapse}'
        for mount in mounts.values():
            mount.pmc('t', f'event=cpu-clock mode=SS freq={rate} autostart=off target=all callchain=on')
            mount.write('t/ctl', 'start')
            burn(seconds)
            mount.write('t/ctl', 'stop')
        used = {name: [] for name in [*mounts, 'perf script']}
        for name in in_turn(used, amount(5, 3, 1)):
            server = mounts[name].server if name in mounts else None
            before = cpu_ns(server)[0] if server else 0
            with open(text, 'w', encoding='ascii') as out:
                ms = waited_ms(subprocess.Popen(
                    f'{names} <{mounts[name].dir}/t/samples.folded' if server else perf, shell=True, stdout=out, stderr=null))
            ms += (cpu_ns(server)[0] - before) / 1e6 if server else 0
            with open(text, encoding='utf-8', errors='replace') as out:
                used[name].append(1e3 * ms / sum(int(stack.rsplit(' ', 1)[1]) for stack in out))
        row('folded stacks with names, a sample', 'µs CPU', used, 'perf script', '<= 0.5',
            page='folded stacks with function names, processor time for each sample')
