"""Samplers of the benchmark: perf record, a PMC, and the load that they observe."""
import os, struct, subprocess

from things import WORK, cpu_ns, waited_ms


def burn(seconds):
    return int(subprocess.run([os.path.join(WORK, 'burn'), str(seconds)], check=True, stdout=subprocess.PIPE).stdout)


def samples_in(path):
    """How many samples there are in a file of perf record or a copy of samples.perf, at least one, and were lost."""
    with open(path, 'rb') as file:
        data = file.read()
    at = struct.unpack_from('Q', data, 8)[0]  # the size of the header
    if at > 16:  # a file, not a stream: where the records are
        at, end = struct.unpack_from('QQ', data, 40)
        end += at
    else:
        end = len(data)
    found = lost = 0
    while at + 8 <= end:
        kind, _, size = struct.unpack_from('IHH', data, at)
        if kind == 9:
            found += 1
        elif kind == 2:
            lost += struct.unpack_from('Q', data, at + 16)[0]
        elif kind == 13:
            lost += struct.unpack_from('Q', data, at + 8)[0]
        at += max(size, 8)
    if not found:
        raise OSError('no samples')
    return found, lost


class Sampler:
    """Samples all CPUs in the with statement. Afterwards: cpu_ms, all processor time; running_ms, the same without perf's
    start; samples; lost; data, the file with the samples."""

    def __init__(self, rate, chains=False):
        self.rate, self.chains, self.data = rate, chains, os.path.join(WORK, 'samples')


class PerfRecord(Sampler):
    def __init__(self, rate, chains=False, options=('-m', '128', '-B', '-N')):
        super().__init__(rate, chains)
        self.options = options

    def __enter__(self):
        (ctl_in, ctl_out), (ack_in, ack_out) = os.pipe(), os.pipe()
        self.process = subprocess.Popen(
            ['perf', 'record', '-q', '-a', '-e', 'cpu-clock', '-F', str(self.rate), *self.options, '-o', self.data,
             '-D', '-1', '--control', f'fd:{ctl_in},{ack_out}'] + (['-g'] if self.chains else []),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(ctl_in, ack_out))
        os.close(ctl_in)
        os.close(ack_out)
        self.ctl, self.ack = open(ctl_out, 'w', encoding='ascii'), open(ack_in, 'r', encoding='ascii')
        self.send('enable')
        if not self.ack.readline():
            raise OSError('perf record does not start')
        self.start_ms = cpu_ns(self.process.pid)[0] / 1e6
        return self

    def send(self, word):
        self.ctl.write(word + '\n')
        self.ctl.flush()

    def __exit__(self, *_):
        self.send('stop')
        self.cpu_ms = waited_ms(self.process)
        self.running_ms = self.cpu_ms - self.start_ms
        self.ctl.close()
        self.ack.close()
        self.samples, self.lost = samples_in(self.data)


class PmcSamples(Sampler):
    def __init__(self, mount, rate, chains=False):
        super().__init__(rate, chains)
        self.mount = mount

    def __enter__(self):
        self.began_ns = cpu_ns(self.mount.server)[0]
        self.mount.pmc('s', f'event=cpu-clock mode=SS freq={self.rate} autostart=off target=all'
                       + (' callchain=on' if self.chains else ''))
        with open(self.data, 'wb') as out:
            self.reader = subprocess.Popen(['cat', self.mount.dir + '/s/samples.perf'], stdout=out)
        self.mount.write('s/ctl', 'start')
        return self

    def __exit__(self, *_):
        self.mount.write('s/ctl', 'stop')
        self.cpu_ms = self.running_ms = waited_ms(self.reader) + (cpu_ns(self.mount.server)[0] - self.began_ns) / 1e6
        self.samples, _ = samples_in(self.data)
        with open(self.mount.dir + '/s/status', encoding='ascii') as file:
            self.lost = sum(int(text.split()[1]) for text in file if text.startswith(('log_lost', 'kernel_lost')))
        os.rmdir(self.mount.dir + '/s')


def in_turn(things, rounds, first=0):
    """Yields all things in each round, each time starting with another one."""
    things = list(things)
    for turn in range(first, first + rounds):
        yield from (things[(i + turn) % len(things)] for i in range(len(things)))


def sampled(sampler, seconds):
    with sampler:
        done = burn(seconds)
    return sampler, done
