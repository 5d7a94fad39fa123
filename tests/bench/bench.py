"""The measures of the benchmark. run.sh calls it; its head describes the use.

A measure is a function that runs its alternatives in turn and adds rows of results: for each alternative one number
a round. "pmcfs" is the build that is measured, "other" the one of -B, and the third is what both are compared with. In
the sentence of a measure this is the part after the slash.
"""
import contextlib, glob, os, shutil, socket, statistics, subprocess, sys, time, urllib.request

import results
import commands, scale  # the order of these imports is the order of the measures
from results import curve, measure, measures, note, row
from samplers import PerfRecord, PmcSamples, burn, in_turn, sampled, samples_in
from things import BUILDS, CPUS, HERE, WORK, Mount, Mounts, Targets
from things import amount, client, counts, cpu_ns, descriptors, fill, limits, placements, resident_kib, stopped, waited_ms

# ---- reading ----

def against_floor(operation, operations, page):
    with counts() as (mounts, files):
        for where, cpus in placements(mounts):
            ns, p99, _ = client({name: f'{operation}:{file}' for name, file in files.items()},
                                amount(200, 40, 2), operations, cpus)
            row(f'{operation} of count, {where}', 'µs', ns, 'floor', '<= 1.05', p99=p99, scale=1e-3,
                page=page if where == 'one CPU' else None)


@measure('pread')
def pread():
    """a pread of an open count / of the floor's, with as many threads; servers and reader on one CPU, and on any"""
    against_floor('pread', amount(200, 100, 5), 'read of an open `count`, on one CPU')


@measure('open')
def open_read_close():
    """open, read and close of count / of the floor's"""
    against_floor('open', amount(100, 50, 5), 'open, read, close, on one CPU')


@measure('readers')
def readers():
    """preads a second of 1 to 16 readers together, on two CPUs / of the floor's"""
    each = amount(500, 300, 5)
    with counts() as (mounts, files):
        mounts.place(CPUS[:2])
        for n in (1, 2, 4, 8, 16):
            ns, _, _ = client({name: f'readers:{n},{each},{file}' for name, file in files.items()},
                              amount(20, 5, 1), 1, CPUS[:2])
            rates = {name: [n * each * 1e6 / x for x in numbers] for name, numbers in ns.items()}
            row(f'{n} reader{"s" * (n > 1)} together', 'reads/ms', rates, 'floor', '>= 0.97' if n == 16 else '')
            curve('readers', n, {name: statistics.median(r) * 1e3 for name, r in rates.items()})


@measure('prom')
def prom():
    """metrics.prom, and counts, of 1,000 PMCs / 1,000 read(2) of perf events"""
    n = amount(1000, 1000, 20)
    with Targets(amount(100, 100, 2)) as targets, Mounts(limits(n)) as mounts:
        for mount in mounts.values():
            fill(mount, n, targets)
        for file, goal in (('metrics.prom', '<= 2'), ('counts', '<= 1.5')):
            ns, p99, _ = client({**{name: f'file:{m.dir}/{file}' for name, m in mounts.items()},
                                 'perf read(2)': f'events:{n},{targets[0]},'}, amount(50, 15, 1), amount(4, 2, 1))
            row(f'{file} of {n} PMCs', 'ms', ns, 'perf read(2)', goal, p99=p99, scale=1e-6,
                page=f'`{file}` of 1,000 PMCs')


@measure('list')
def ls():
    """all names of a root with 10,000 PMCs / of the floor with as many directories"""
    n = amount(10000, 3000, 20)
    with Targets(100) as targets, Mounts(limits(n), floor=True, names=n, target=targets[0]) as mounts:
        for mount in mounts.builds().values():
            fill(mount, n, targets)
        ns, p99, sizes = client({name: 'list:' + m.dir for name, m in mounts.items()}, amount(40, 10, 1), 1)
        row(f'ls of {sizes["pmcfs"]} names', 'ms', ns, 'floor', '<= 1.2', p99=p99, scale=1e-6,
            page='`ls` of 10,000 PMCs')


# ---- creating ----

@measure('make')
def make():
    """mkdir, config with event and target, rmdir / the same on the floor, and open, enable and close of an event"""
    with Targets(1) as (target,), Mounts(floor=True, target=target) as mounts:
        for where, cpus in placements(mounts):
            ns, p99, _ = client({name: f'make{"" if name in BUILDS else "-bare"}:{target},{m.dir}'
                                 for name, m in mounts.items()}, amount(100, 20, 1), amount(20, 10, 2), cpus)
            row(f'mkdir, config, rmdir, {where}', 'µs', ns, 'floor', '<= 1.5', p99=p99, scale=1e-3,
                page='mkdir, `config` with event and target, rmdir' if where == 'one CPU' else None)


@measure('attach')
def attach():
    """a process of 1,000 threads written to target / an event opened for each of them, in a loop"""
    n = amount(1000, 1000, 10)
    with Targets(n, threads=True) as (target,), Mounts() as mounts:
        ns, p99, _ = client({**{name: f'attach:{target},{m.dir}' for name, m in mounts.items()},
                             'bare loop': f'opens:{target},'}, amount(30, 8, 1), 1)
        row(f'attach to {n} threads', 'ms', ns, 'bare loop', '<= 1.2', p99=p99, scale=1e-6,
            page='attach to 1,000 threads')


def perf_stat_kib(n, target):
    """Resident memory of perf stat with n events."""
    with subprocess.Popen(['perf', 'stat', '-o', '/dev/null', '-e', ','.join(['faults'] * n), '-p', str(target)]) as process:
        try:
            for _ in range(200):
                if process.poll() is not None or len(os.listdir(f'/proc/{process.pid}/fd')) >= n + 4:  # and its output
                    break
                time.sleep(0.05)
            time.sleep(0.3)
            if process.poll() is not None or len(os.listdir(f'/proc/{process.pid}/fd')) < n + 4:
                raise OSError(f'perf stat does not count {n} events')
            return resident_kib(process.pid)
        finally:
            process.kill()


@measure('memory')
def memory():
    """resident memory of the serving process, beyond that with no PMC, for each that counts; beside it perf stat's for each
    event beyond the first"""
    steps = amount((1000, 2000, 5000, 10000), (1000, 3000), (10, 20))
    grown = {}
    if shutil.which('perf'):
        with Targets(1) as (target,):
            empty = perf_stat_kib(1, target)
            for n in steps:
                kib = perf_stat_kib(n, target) - empty
                grown['perf stat'] = kib / n
                curve('memory', n, {'perf stat': kib / 1024})
    for build, binary in BUILDS.items():
        with Targets(100) as targets, Mount(build, binary, '-f', '-o', limits(steps[-1])) as mount:
            empty, made = resident_kib(mount.server), 0
            for n in steps:
                fill(mount, n, targets, made)
                made = n
                grown[build] = (resident_kib(mount.server) - empty) / n
                curve('memory', n, {build: (resident_kib(mount.server) - empty) / 1024})
    row(f'resident, a PMC of {steps[-1]}', 'KiB', {b: [kib] for b, kib in grown.items()}, goal='<= 1.5', by='value',
        against='perf stat', page='memory of a counting PMC, of 10,000')


@measure('many')
def many():
    """pread, mkdir, rmdir and lookup (of an absent name) with very many PMCs (-N) / with one; all on one CPU"""
    n = int(os.environ.get('PMCS') or amount(20000, 5000, 20))
    with Targets(100) as targets, Mounts() as few, Mounts(limits(n), suffix='-many') as lots:
        for mount in few.values():
            fill(mount, 1, targets)
        attached = min(n, descriptors() // 2)
        if attached < n:
            note(f'many: {attached} of them have a target, for there are no more than {descriptors()} descriptors here')
        for mount in lots.values():
            fill(mount, attached, targets)
            fill(mount, n, [], attached)
        few.place(CPUS[:1])
        lots.place(CPUS[:1])
        for operation in ('pread', 'mkdir', 'rmdir', 'lookup'):
            file = '/m000000/count' if operation == 'pread' else ''
            ns, p99, _ = client({**{name: f'{operation}:{m.dir}{file}' for name, m in lots.items()},
                                 'one PMC': f'{operation}:{few["pmcfs"].dir}{file}'},
                                amount(100, 40, 1), amount(50, 25, 2), CPUS[:1])
            row(f'{operation} with {n} PMCs', 'µs', ns, 'one PMC', '<= 1.1', p99=p99, scale=1e-3)


# ---- sampling ----

def million(ms, samples):
    return ms / 1e3 / samples * 1e6


def sampling_at(rate, makers, seconds):
    whole, further, lost, slower = ({name: [] for name in makers} for _ in range(4))
    for turn in range(amount(7, 2, 1)):
        bare = burn(seconds)
        for name in in_turn(makers, 1, turn):
            short, _ = sampled(makers[name](rate), seconds / 8)
            long, done = sampled(makers[name](rate), seconds)
            whole[name].append(million(long.cpu_ms, long.samples))
            further[name].append(million(long.running_ms - short.running_ms, long.samples - short.samples))
            lost[name].append(long.lost)
            slower[name].append(100 * (1 - done / bare))
    at = f'{rate // 1000} kHz'
    row(f'turns of {seconds} s, a million samples, {at}', 's CPU', whole, 'perf record', '<= 0.5')
    if rate > 1000: # else perf's start, which varies, is more than the difference
        row(f'a further million, {at}', 's CPU', further, 'perf record',
            page='one million further samples, processor time' if rate == 10000 else None)
    row(f'lost, {at}', 'records', lost, 'perf record', '<= 0', 'difference')
    row(f'program slower, {at}', '%', slower, 'perf record', '<= 0', 'difference')
    curve('sampling', rate // 1000, {name: statistics.median(x) for name, x in whole.items()})


@measure('sampling')
def sampling():
    """CPU time of all that samples of cpu-clock take, at 1, 10 and 50 kHz on each CPU, for a million, and for a further one
    (a long turn less a short one); what is lost; the slow-down of a program that uses all CPUs / perf record -B -N"""
    if not shutil.which('perf'):
        return note('sampling: no perf')
    with Mounts() as mounts:
        makers = {'perf record': PerfRecord,
                  **{name: lambda rate, m=mount: PmcSamples(m, rate) for name, mount in mounts.items()}}
        for rate in amount((1000, 10000, 50000), (1000, 10000, 50000), (1000,)):
            sampling_at(rate, makers, amount(4, 1, 0.2))
    with open('/proc/sys/kernel/perf_event_max_sample_rate', encoding='ascii') as most:
        note(f'sampling: afterwards the kernel allows {most.read().strip()} samples a second')


def perf_script(path, *options):
    """Samples a second of CPU time."""
    samples, _ = samples_in(path)
    with open(os.path.join(WORK, 'text'), 'wb') as out:
        ms = waited_ms(subprocess.Popen(['perf', 'script', '-i', path, *options], stdout=out, stderr=subprocess.DEVNULL))
    return samples / ms * 1e3


def pmc_text(mount):
    """The same for a read of the file samples."""
    before = cpu_ns(mount.server)[0]
    with open(os.path.join(WORK, 'text'), 'w+b') as out:
        ms = waited_ms(subprocess.Popen(['cat', mount.dir + '/t/samples'], stdout=out))
        ms += (cpu_ns(mount.server)[0] - before) / 1e6
        out.seek(0)
        samples = sum(text.split(b' ', 2)[1] in (b'sample', b'callchain') for text in out if text.count(b' ') > 1)
    if not samples:
        raise OSError(f'no samples in {mount.dir}/t/samples')
    return samples / ms * 1e3


@measure('text')
def text_of_samples():
    """samples made text in a second of CPU time, without and with call chains, again and again from one log / perf script,
    and perf script without names of functions"""
    if not shutil.which('perf'):
        return note('text: no perf')
    rate, seconds = amount(10000, 10000, 1000), amount(2, 1, 0.2)
    with Mounts('logbuffersize=2048') as mounts:
        for chains, goal in ((False, '>= 10'), (True, '>= 15')):
            with PerfRecord(rate, chains) as record:
                burn(seconds)
            for mount in mounts.values():
                mount.pmc('t', f'event=cpu-clock mode=SS freq={rate} autostart=off target=all'
                          + (' callchain=on' if chains else ''))
                mount.write('t/ctl', 'start')
                burn(seconds)
                mount.write('t/ctl', 'stop')
            entry = {name: [] for name in [*mounts, 'perf script', 'without names']}
            fields = 'comm,pid,tid,cpu,time,event,ip'
            for name in in_turn(entry, amount(3, 2, 1)):
                entry[name].append(pmc_text(mounts[name]) if name in mounts else perf_script(
                    record.data, *(['-F', fields] if name == 'without names' else [])))
            builds = {name: entry[name] for name in mounts}
            what = 'as text, with call chains' if chains else 'as text'
            for reference, wanted in (('perf script', goal), ('without names', '')):
                row(what if wanted else what + ', no names', 'samples/s', {**builds, reference: entry[reference]},
                    reference, wanted)
            for mount in mounts.values():
                os.rmdir(mount.dir + '/t')


# ---- no PMC ----

@measure('idle')
def idle():
    """CPU time and how often a thread of both processes ran in 10 seconds without a PMC, and their resident memory; mounts
    and unmounts by others during this time wake it"""
    seconds = amount(10, 3, 0.5)
    with Mounts() as mounts:
        time.sleep(amount(2, 2, 0.5))  # until a start is over
        pids = {name: {m.main.pid, m.server} for name, m in mounts.items()}
        before = {name: [cpu_ns(pid) for pid in sorted(p)] for name, p in pids.items()}
        time.sleep(seconds)
        after = {name: [cpu_ns(pid) for pid in sorted(p)] for name, p in pids.items()}
        for i, (what, unit) in enumerate((('CPU time', 'µs'), ('ran', 'times'))):
            row(f'idle for {seconds} s: {what}', unit, {
                name: [sum(b[i] - a[i] for a, b in zip(before[name], after[name])) / (1 if i else 1e3)] for name in mounts},
                goal='<= 0', by='value')
        for what, which, goal in (('serving process', 'server', '<= 6'), ('process that mounted', 'main', '')):
            row(f'resident without a PMC: {what}', 'MiB', {
                name: [resident_kib(m.server if which == 'server' else m.main.pid) / 1024] for name, m in mounts.items()},
                goal=goal, by='value', page=f'memory without a PMC, {what}')


# ---- other agents ----

EVENTS = {'page-faults': 'PAGE_FAULTS', 'context-switches': 'CONTEXT_SWITCHES', 'cpu-migrations': 'CPU_MIGRATIONS',
          'minor-faults': 'PAGE_FAULTS_MIN', 'major-faults': 'PAGE_FAULTS_MAJ'}


def all_events(mounts):
    for mount in mounts.values():
        for event in EVENTS:
            mount.pmc(event, f'event={event} target=all metrics=cpu')
    return {name: f'file:{mount.dir}/metrics.prom' for name, mount in mounts.items()}


@measure('exporter')
def exporter():
    """a read of metrics.prom / a scrape of node_exporter with its collector perf: five software events on each CPU"""
    program = shutil.which('prometheus-node-exporter') or shutil.which('node_exporter')
    if not program:
        return note('exporter: no node_exporter (Debian: prometheus-node-exporter)')
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    with Mounts() as mounts, open(os.path.join(WORK, 'log'), 'a', encoding='utf-8') as log:
        peer = subprocess.Popen([program, '--collector.disable-defaults', '--collector.perf', '--web.disable-exporter-metrics',
                                 f'--web.listen-address=127.0.0.1:{port}'], stdout=log, stderr=log)
        files = all_events(mounts)
        try:
            if b'node_perf_page_faults_total' not in scraped(port):
                raise OSError('node_exporter does not count page faults')
            ns, p99, sizes = client({**files, 'node_exporter': f'http:{port},'}, amount(50, 15, 1), amount(10, 5, 1))
        finally:
            stopped(peer)
        row('5 events on each CPU, a scrape', 'µs', ns, 'node_exporter', p99=p99, scale=1e-3,
            page='five events of each CPU for Prometheus')
        note(f'exporter: {sizes["pmcfs"]} and {sizes["node_exporter"]} bytes')


def scraped(port):
    for _ in range(100):
        with contextlib.suppress(OSError), urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics') as answer:
            return answer.read()
        time.sleep(0.05)
    raise OSError(f'nothing listens on port {port}')


PCP = '/var/lib/pcp/pmdas/perfevent/pmdaperfevent'


def pcp_unpack():
    """Debian's package needs a running systemd to be installed: it is unpacked over directories that only this run sees."""
    kept = os.path.join(HERE, '../../build-tests/bench-pcp')
    os.makedirs(kept, exist_ok=True)
    if not glob.glob(kept + '/pcp_*.deb'):
        subprocess.run(['apt-get', '-q', 'download', 'pcp', 'pcp-conf', 'libpcp3', 'libpcp-pmda3', 'libpcp-web1', 'libpcp-mmv1',
                        'libpcp-import1', 'libpcp-archive1', 'libpcp-gui2', 'libpcp-trace2'], cwd=kept, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    over = os.path.join(WORK, 'pcp')
    os.makedirs(over)
    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', over], check=True)
    for package in glob.glob(kept + '/*.deb'):
        subprocess.run(['dpkg', '-x', package, over + '/all'], check=True)
    for name in ('usr', 'etc', 'var') if os.path.isdir(over + '/all') else ():
        os.makedirs(f'{over}/{name}')
        os.makedirs(f'{over}/work-{name}')
        subprocess.run(['mount', '-t', 'overlay', 'overlay', '-o', f'lowerdir={over}/all/{name}:/{name},upperdir={over}/{name},'
                        f'workdir={over}/work-{name}', '/' + name], check=True)


def pcp_fetches(names, n):
    """The nanoseconds that dbpmda prints for each fetch: the agent answers on a pipe, without pmcd."""
    printed = subprocess.run(['dbpmda', '-n', names], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, input=(
        f'open pipe {PCP} -d 127 -U root -l {WORK}/log\ntimer on\n' + 'fetch e0 e1 e2 e3 e4\n' * n)).stdout
    return [float(text.split()[1]) * 1e9 for text in printed.splitlines() if text.startswith('Timer:')]


@measure('pcp')
def pcp():
    """a read of metrics.prom / a fetch from PCP's agent perfevent: five software events on each CPU"""
    if not shutil.which('dbpmda'):
        pcp_unpack()
    if not os.path.exists(PCP):
        return note('pcp: no PCP (Debian: pcp), and it cannot be had')
    config, names = os.path.join(WORK, 'perfevent.conf'), os.path.join(WORK, 'names')
    with open(config, 'w', encoding='ascii') as file:
        file.write('[perf]\n' + ''.join(f'PERF_COUNT_SW_{event} cpu\n' for event in EVENTS.values()))
    subprocess.run(['mount', '--bind', config, '/etc/pcp/perfevent/perfevent.conf'], check=True)
    with open(names, 'w', encoding='ascii') as file:  # items 2 to 6 of the agent are its counters
        file.write('root {\n' + ''.join(f'e{i} 127:{i + 2}:0\n' for i in range(5)) + '}\n')
    with Mounts() as mounts:
        files, entry, n = all_events(mounts), {name: [] for name in [*mounts, 'perfevent']}, amount(100, 50, 5)
        for _ in range(amount(10, 5, 1)):
            fetches = pcp_fetches(names, n)
            if len(fetches) != n:
                return note('pcp: its agent perfevent does not count here')
            entry['perfevent'].append(statistics.median(fetches))
            for name, (ns,) in client(files, 1, n)[0].items():
                entry[name].append(ns)
    row('5 events on each CPU, a fetch', 'µs', entry, 'perfevent', scale=1e-3,
        page='the same events, as numbers for PCP')


# ---- main ----

def main(wanted):
    failed = False
    # The lock files of mounts are visible to this run only.
    subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', '/run'], check=True)
    facts = results.about({})
    print(', '.join(f'{key} {value}' for key, value in facts.items() if value))
    results.print_head()
    for name in wanted or [name for name in measures if not name.startswith('scale-')]:
        before = len(results.rows)
        began = time.monotonic()
        try:
            measures[name]()
        except Exception as error:  # any failure is reported, and the other measures run
            note(f'{name} failed: {error!r}')
            failed = True
        for entry in results.rows[before:]:
            entry['measure'] = name
        facts['seconds'][name] = round(time.monotonic() - began, 1)
    results.write(facts)
    return 1 if failed else 0


if sys.argv[1:2] == ['--list']:
    for one in measures:
        print(f'{one:17}{" ".join(measures[one].__doc__.split())}')
elif sys.argv[1:2] == ['--known']:
    for one in sys.argv[2:]:
        if one not in measures:
            sys.exit(f'bench: no measure is called {one}; there are {" ".join(measures)}')
else:
    sys.exit(main(sys.argv[1:]))
