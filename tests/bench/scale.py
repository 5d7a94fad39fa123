"""Measures of growth: the same operations with more PMCs, tasks, instances or readers. They print a row for each number and a
note with the power of growth: 0 is independent of the number, 1 is proportional to it. Only run if they are selected."""
import math, os, statistics, subprocess, sys, time

from results import figure, growth, measure, note, row
from samplers import burn
from things import BUILDS, WORK, Mount, Targets, amount, client, cpu_ns, descriptors, limits, resident_kib


def grown(things, table):
    """table: {(what, unit): {number: value}}"""
    for (what, unit), values in table.items():
        for n, value in values.items():
            row(f'{what}, {n} {things}', unit, {build: [value] for build in BUILDS}, by='value')
        (first, low), (last, high) = list(values.items())[0], list(values.items())[-1]
        if low > 0 < high:
            power = math.log(high / low) / math.log(last / first)
            note(f'{what}: from {first} to {last} {things} x {high / low:.3g}, power {power:.2f}')
            growth(f'{what}: {", ".join(f"{n:,}" for n in values)} {things}',
                   [figure(value, unit) for value in values.values()] + [f'{power:.2f}'])


def median_of(operation, operations=1):
    """Nanoseconds of an operation of the client."""
    return statistics.median(client({'pmcfs': operation}, amount(9, 5, 1), operations)[0]['pmcfs'])


def served_ms(mount, operation):
    """Processor time of the server for an operation of the client: depends less on other load than the time."""
    before, rounds = cpu_ns(mount.server)[0], amount(9, 5, 1)
    client({'pmcfs': operation}, rounds, 1)
    return (cpu_ns(mount.server)[0] - before) / 1e6 / rounds


@measure('scale-pmcs')
def scale_pmcs():
    """1,000, 10,000 and 100,000 counting PMCs: creating, reading one and all, listing, memory"""
    attached = descriptors() // 2  # the others have no target
    if attached < amount(100000, 10000, 20):
        note(f'scale-pmcs: {attached} PMCs have a target, because a process may have {descriptors()} descriptors here')
    table = {key: {} for key in (('create a PMC', 'µs'), ('read a count', 'µs'), ('read `counts`, processor time', 'ms'),
                                 ('read `metrics.prom`, processor time', 'ms'), ('`ls`, processor time', 'ms'),
                                 ('memory for each PMC', 'KiB'))}
    create, read, counts, prom, ls, memory = table.values()
    steps, made = amount((1000, 10000, 100000), (1000, 10000), (10, 20)), 0
    with Targets(100) as targets, Mount('pmcfs', BUILDS['pmcfs'], '-f', '-o', limits(steps[-1])) as mount:
        empty = resident_kib(mount.server)
        for n in steps:
            start_ns = time.monotonic_ns()
            for i in range(made, n):
                mount.pmc(f'm{i:06}', 'event=page-faults' + (f' target={targets[i % len(targets)]}' if i < attached else ''))
            create[n] = (time.monotonic_ns() - start_ns) / (n - made) / 1e3
            made = n
            memory[n] = (resident_kib(mount.server) - empty) / n
            read[n] = median_of(f'pread:{mount.dir}/m000000/count', 100) / 1e3
            counts[n] = served_ms(mount, f'file:{mount.dir}/counts')
            prom[n] = served_ms(mount, f'file:{mount.dir}/metrics.prom')
            ls[n] = served_ms(mount, f'list:{mount.dir}')
    grown('PMCs', table)


TREE = '''
import os, sys, threading
threading.stack_size(65536)
for _ in range(int(sys.argv[1])):
    if os.fork() == 0:
        for _ in range(49):
            threading.Thread(target=threading.Event().wait).start()
        threading.Event().wait()
threading.Event().wait()
'''


@measure('scale-tree')
def scale_tree():
    """500, 1,000 and 5,000 tasks below one target with descendants=on, 50 for each process: attaching, reading, memory"""
    table = {key: {} for key in (('attach a tree', 'ms'), ('read the count of a tree', 'µs'), ('detach a tree', 'ms'),
                                 ('memory for each task', 'KiB'))}
    attach, read, detach, memory = table.values()
    descriptors()
    for n in amount((500, 1000, 5000), (500, 1000), (50, 100)):
        tree = subprocess.Popen([sys.executable, '-c', TREE, str(n // 50)], process_group=0)
        try:
            while sum(len(os.listdir(f'/proc/{pid}/task')) for pid in below(tree.pid)) < n:
                time.sleep(0.05)
            with Mount('pmcfs', BUILDS['pmcfs'], '-f', '-o', limits(10) + f',max_covered_per_pmc={2 * n}') as mount:
                times = []
                for _ in range(amount(5, 3, 1)):
                    mount.pmc('t', 'event=page-faults descendants=on')
                    empty, start_ns = resident_kib(mount.server), time.monotonic_ns()
                    mount.write('t/target', str(tree.pid))
                    attached_ns = time.monotonic_ns()
                    memory[n] = (resident_kib(mount.server) - empty) / n if not times else memory[n]
                    read[n] = median_of(f'pread:{mount.dir}/t/count', 20) / 1e3
                    removed_ns = time.monotonic_ns()
                    os.rmdir(mount.dir + '/t')
                    times.append((attached_ns - start_ns, time.monotonic_ns() - removed_ns))
                attach[n], detach[n] = (statistics.median(x) / 1e6 for x in zip(*times))
        finally:
            os.killpg(tree.pid, 9)
            tree.wait()
    grown('tasks', table)


def below(pid):
    """The children of a process without grandchildren."""
    with open(f'/proc/{pid}/task/{pid}/children', encoding='ascii') as file:
        return file.read().split()


@measure('scale-instances')
def scale_instances():
    """16, 64 and 256 instances with a counting PMC in each: creating, reading in one, metrics.prom of the root, memory"""
    table = {key: {} for key in (('create an instance and its PMC', 'µs'), ('read a count', 'µs'),
                                 ('read `metrics.prom` of the root', 'µs'), ('memory for each instance', 'KiB'))}
    create, read, prom, memory = table.values()
    made = 0
    with Targets(10) as targets, Mount('pmcfs', BUILDS['pmcfs'], '-f', '-o', limits(1000)) as mount:
        empty = resident_kib(mount.server)
        for n in amount((16, 64, 256), (16, 64, 256), (2, 4)):
            start_ns = time.monotonic_ns()
            for i in range(made, n):
                os.mkdir(f'{mount.dir}/instances/i{i}')
                mount.pmc(f'instances/i{i}/m', f'event=page-faults target={targets[i % len(targets)]}')
            create[n] = (time.monotonic_ns() - start_ns) / (n - made) / 1e3
            made = n
            memory[n] = (resident_kib(mount.server) - empty) / n
            read[n] = median_of(f'pread:{mount.dir}/instances/i0/m/count', 100) / 1e3
            prom[n] = median_of(f'file:{mount.dir}/metrics.prom') / 1e3
    grown('instances', table)


@measure('scale-readers')
def scale_readers():
    """1, 20 and 200 readers of the samples of one PMC at 1 kHz on each CPU: processor time, lost records, memory"""
    table = {key: {} for key in (('processor time of the server for each sample and reader', 'µs CPU'), ('lost', 'records'), ('memory for each reader', 'KiB'))}
    cost, lost, memory = table.values()
    with Mount('pmcfs', BUILDS['pmcfs'], '-f') as mount:
        for n in amount((1, 20, 200), (1, 20, 200), (1, 2)):
            mount.pmc('s', 'event=cpu-clock mode=SS freq=1000 autostart=off target=all')
            empty, before = resident_kib(mount.server), cpu_ns(mount.server)[0]
            with open(os.path.join(WORK, 'text'), 'wb') as out:
                readers = [subprocess.Popen(['cat', mount.dir + '/s/samples'], stdout=subprocess.DEVNULL if i else out)
                           for i in range(n)]
            mount.write('s/ctl', 'start')
            burn(amount(4, 2, 0.2))
            memory[n] = (resident_kib(mount.server) - empty) / n
            mount.write('s/ctl', 'stop')
            for reader in readers:
                reader.wait(60)
            with open(os.path.join(WORK, 'text'), 'rb') as text:
                samples = sum(b' sample ' in line for line in text)
            cost[n] = (cpu_ns(mount.server)[0] - before) / 1e3 / max(samples, 1) / n
            with open(mount.dir + '/s/status', encoding='ascii') as file:
                lost[n] = sum(int(text.split()[1]) for text in file if text.startswith(('log_lost', 'kernel_lost')))
            os.rmdir(mount.dir + '/s')
    grown('readers', table)
