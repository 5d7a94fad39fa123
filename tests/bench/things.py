"""The tools of the benchmark: mounts, processes to count, the client, and the kernel's numbers of a process."""
import contextlib, os, resource, subprocess, sys, time

HERE = os.path.dirname(os.path.abspath(__file__))
WORK, OUT, AMOUNT = (os.environ.get(name, '') for name in ('WORK', 'OUT', 'AMOUNT'))
BUILDS = {name: os.environ.get(key) for name, key in (('pmcfs', 'PMCFS'), ('other', 'OTHER')) if os.environ.get(key)}
CPUS = sorted(os.sched_getaffinity(0))


def amount(full, quick, tiny):
    return {'full': full, 'quick': quick, 'tiny': tiny}[AMOUNT]


def stopped(process):
    process.kill()
    process.wait()


def threads_of(pid):
    return [int(tid) for tid in os.listdir(f'/proc/{pid}/task')]


def cpu_ns(pid):
    """The CPU time of all living threads, exact and not in ticks, and how often they ran."""
    numbers = [0, 0]
    for tid in threads_of(pid):
        with open(f'/proc/{pid}/task/{tid}/schedstat', encoding='ascii') as file:
            ns, _, times = file.read().split()
        numbers = [numbers[0] + int(ns), numbers[1] + int(times)]
    return numbers


def resident_kib(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as file:
        return next(int(text.split()[1]) for text in file if text.startswith('VmRSS:'))


def waited_ms(process):
    """Waits for a child, which must succeed. Returns its CPU time, with that of its children."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, process.args)
    return (usage.ru_utime + usage.ru_stime) * 1e3


class Mount:
    """A file system that a program serves during the with statement."""

    def __init__(self, name, *command):
        self.dir, self.command = os.path.join(WORK, 'mnt-' + name), command

    def __enter__(self):
        os.makedirs(self.dir, exist_ok=True)
        self.log = open(self.dir + '.log', 'w', encoding='utf-8')
        self.main = subprocess.Popen([*self.command, self.dir], stdout=self.log, stderr=self.log)
        for _ in range(200):
            if os.path.ismount(self.dir):
                break
            if self.main.poll() is not None:
                raise OSError(f'{self.command[0]} did not mount: ' + open(self.log.name, encoding='utf-8').read())
            time.sleep(0.05)
        else:
            stopped(self.main)
            raise OSError(f'{self.command[0]} did not mount in 10 seconds')
        with open(f'/proc/{self.main.pid}/task/{self.main.pid}/children', encoding='ascii') as file:
            children = file.read().split()
        self.server = int(children[0]) if children else self.main.pid
        return self

    def __exit__(self, *_):
        subprocess.run(['umount', self.dir], check=False)
        try:
            self.main.wait(60)
        except subprocess.TimeoutExpired:
            stopped(self.main)
        self.log.close()

    def place(self, cpus):
        for tid in threads_of(self.server):
            os.sched_setaffinity(tid, cpus)

    def write(self, file, text):
        with open(os.path.join(self.dir, file), 'w', encoding='utf-8') as out:
            out.write(text + '\n')

    def pmc(self, name, config):
        os.mkdir(os.path.join(self.dir, name))
        self.write(name + '/config', config)


class Mounts(dict):
    """A mount of each build and, if `floor`, of the floor with as many threads."""

    def __init__(self, options='', floor=False, names=0, target=0, suffix=''):
        super().__init__()
        for build, binary in BUILDS.items():
            self[build] = Mount(build + suffix, binary, '-f', *(['-o', options] if options else []))
        self.floor = ['-n', str(names), '-p', str(target)] if floor else None

    def __enter__(self):
        with contextlib.ExitStack() as mounted:
            for mount in self.values():
                mounted.enter_context(mount)
            if self.floor:
                with open(self['pmcfs'].dir + '/admin/tunables/threads', encoding='ascii') as file:
                    threads = file.read().strip()
                self['floor'] = mounted.enter_context(Mount('floor', os.path.join(WORK, 'floor'), '-t', threads, *self.floor))
            self.mounted = mounted.pop_all()
        return self

    def __exit__(self, *error):
        self.mounted.close()

    def place(self, cpus):
        for mount in self.values():
            mount.place(cpus)

    def builds(self):
        return {name: mount for name, mount in self.items() if name in BUILDS}


class Targets:
    """n processes, or one with n threads, that sleep during the with statement."""

    def __init__(self, n, threads=False):
        self.commands = [[sys.executable, '-c', THREADS, str(n)]] if threads else [['sleep', 'infinity']] * n

    def __enter__(self):
        self.processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for command in self.commands]
        if self.commands[0][0] != 'sleep':
            self.processes[0].stdout.readline()
        return [process.pid for process in self.processes]

    def __exit__(self, *_):
        for process in self.processes:
            stopped(process)
            process.stdout.close()


THREADS = '''
import sys, threading
threading.stack_size(65536)
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=threading.Event().wait).start()
print(flush=True)
threading.Event().wait()
'''


def client(alternatives, rounds, operations, cpus=None):
    """alternatives: {name: OPERATION:ARGUMENT}. Returns {name: ns a round}, {name: p99}, {name: size}."""
    printed = subprocess.run(
        [os.path.join(WORK, 'client'), '-r', str(rounds), '-n', str(operations), *alternatives.values()], check=True,
        stdout=subprocess.PIPE, stderr=None, text=True,
        preexec_fn=(lambda: os.sched_setaffinity(0, cpus)) if cpus else None).stdout.splitlines()
    table = [[int(word) for word in text.split()[1:]] for text in printed]
    return tuple({name: part[i] for i, name in enumerate(alternatives)}
                 for part in (list(zip(*table[:-2])), table[-2], table[-1]))


def fill(mount, n, targets, first=0):
    for i in range(first, n):
        mount.pmc(f'm{i:06}', 'event=page-faults' + (f' target={targets[i % len(targets)]}' if targets else ''))


def descriptors():
    """Raises the limit of open descriptors, and returns it."""
    with contextlib.suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 20))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def limits(n):
    return f'max_pmcs={2 * n},max_pmcs_per_user={2 * n},max_fds_per_user={8 * n + 1000}'


def placements(mounts):
    """Pinned first, so that all servers start out from one CPU when they go free."""
    for name, where in (('one CPU', CPUS[:1]), ('free', CPUS)):
        mounts.place(where)
        yield name, where


@contextlib.contextmanager
def counts():
    """Yields mounts with a PMC and the floor, and the path of the count of each."""
    with Targets(1) as (target,), Mounts(floor=True, target=target) as mounts:
        for mount in mounts.builds().values():
            mount.pmc('one', f'event=page-faults target={target}')
        yield mounts, {name: m.dir + ('/one/count' if name in BUILDS else '/count') for name, m in mounts.items()}
