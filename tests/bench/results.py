"""Results: rows of a table with ratios and their spread, bench.json, pictures."""
import contextlib, datetime, json, math, os, shutil, statistics, subprocess

from things import AMOUNT, BUILDS, CPUS, HERE, OUT

rows, notes, curves, growths = [], [], {}, {}
measures = {}  # name: function


def measure(name):
    """A function that measures: run.sh selects it by this name."""
    def add(function):
        measures[name] = function
        return function
    return add


def note(text):
    if text not in notes:
        notes.append(text)


def growth(name, figures):
    """A row of the pages with a figure for each number, and the power of growth."""
    growths[name] = figures


def curve(picture, x, values):
    """Adds a point to each line of a picture."""
    for name, y in values.items():
        curves.setdefault(picture, {}).setdefault(name, []).append((x, y))


def spread(numbers):
    ordered = sorted(numbers)
    quarter = (len(ordered) - 1) / 4
    return {'median': statistics.median(ordered), 'q1': ordered[int(quarter)], 'q3': ordered[-1 - int(quarter)],
            'rounds': len(ordered)}


def compared(a, b, by):
    """The spread of the ratios or differences of a and b in each round."""
    if by == 'difference':
        return spread([x - y for x, y in zip(a, b)])
    pairs = [x / y for x, y in zip(a, b) if x > 0 and y > 0]  # a difference within the noise has no ratio
    return spread(pairs) if pairs else None


def is_met(goal, result, by):
    if not goal or not result:
        return None
    least, value = goal.split()[0] == '>=', float(goal.split()[1])
    if by == 'difference':  # within the variation of the rounds
        return result['q1'] <= value
    return result['median'] >= value if least else result['median'] <= value


def row(what, unit, values, against=None, goal='', by='ratio', p99=None, scale=1.0, page=None):
    """values: {alternative: a number a round}; by: ratio or difference to `against`, or value alone; page: the name of the
    row in the tables of the pages, if it has one."""
    entry = {'what': what, 'unit': unit, 'goal': goal, 'by': by, 'against': against, 'page': page}
    for name, numbers in values.items():
        entry[name if name in BUILDS else 'reference'] = dict(
            spread([n * scale for n in numbers]), **({'p99': p99[name] * scale} if p99 else {}))
    for build in BUILDS:
        if by == 'value':
            entry[build + '_met'] = is_met(goal, entry[build], by)
        else:
            entry[build + '_' + by] = compared([n * scale for n in values[build]],
                                              [n * scale for n in values[against]], by)
            entry[build + '_met'] = is_met(goal, entry[build + '_' + by], by)
    if 'other' in BUILDS:
        entry['pmcfs_to_other'] = compared(values['pmcfs'], values['other'], 'ratio')
    rows.append(entry)
    print_row(entry)


def number(value):
    return f'{value:.3f}' if abs(value) < 10 else f'{value:.1f}' if abs(value) < 10000 else f'{value:.0f}'


def with_spread(result):
    return f"{number(result['median'])} ({number(result['q1'])}..{number(result['q3'])})" if result else '-'


def line(cells):
    widths = [54] + [11] * (1 + len(BUILDS)) + [24] * (len(BUILDS) + (len(BUILDS) > 1)) + [21, 9, 4]
    print(' '.join(cell.ljust(w) if i == 0 or i >= 2 + len(BUILDS) else cell.rjust(w)
                   for i, (cell, w) in enumerate(zip(cells, widths))).rstrip(), flush=True)


def print_head():
    two = len(BUILDS) > 1
    line(['what, unit', 'pmcfs'] + (['other'] if two else []) + ['reference', 'ratio, quartiles']
         + (['other to reference', 'pmcfs/other'] if two else []) + ['p99', 'goal', 'met'])


def print_row(entry):
    by = entry['by']
    p99 = [entry[k]['p99'] for k in ('pmcfs', 'reference') if k in entry and 'p99' in entry[k]]
    met = {True: 'yes', False: 'NO', None: ''}
    against = '' if by == 'value' else f" {'-' if by == 'difference' else '/'} {entry['against']}"
    line([f"{entry['what']}{against}, {entry['unit']}"] + [number(entry[build]['median']) for build in BUILDS]
         + [number(entry['reference']['median']) if 'reference' in entry else '']
         + [with_spread(entry[f'{build}_{by}']) if by != 'value' else '' for build in BUILDS]
         + ([with_spread(entry['pmcfs_to_other'])] if 'other' in BUILDS else [])
         + [' / '.join(map(number, p99)), entry['goal'], met[entry['pmcfs_met']]])


PICTURES = {
    'readers': ('Reads a second of one count', 'readers', 'reads/s', ''),
    'memory': ('Resident memory beyond that of none', 'PMCs, or events of perf stat', 'MiB', ''),
    'sampling': ('CPU time for a million samples', 'kHz on each CPU', 's', 'set logscale x; '),
}


def draw():
    if curves and not shutil.which('gnuplot'):
        return note('no gnuplot (Debian: gnuplot-nox): no pictures')
    for picture, lines in curves.items():
        title, x, y, more = PICTURES[picture]
        data = ''.join(f'${i} << END\n' + ''.join(f'{a} {b}\n' for a, b in points) + 'END\n'
                       for i, points in enumerate(lines.values()))
        plots = ', '.join(f'$d{i} using 1:2 with linespoints lw 2 pt 7 ps 0.5 title "{name}"' for i, name in enumerate(lines))
        with open(os.path.join(OUT, f'bench-{picture}.svg'), 'wb') as out:
            subprocess.run(['gnuplot'], check=False, stdout=out, input=(
                'set terminal svg size 600,300 font "sans,11" background "white"\n' + data.replace('$', '$d')
                + f'set title "{title}"\nset xlabel "{x}"\nset ylabel "{y}"\nset yrange [0:*]\nset key left top\nset grid\n'
                + more + f'plot {plots}\n').encode())


def printed(*command):
    """The first line that a command prints; empty if it fails."""
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout.split('\n')[0]


def about(seconds):
    with open('/proc/cpuinfo', encoding='utf-8') as file:  # arm64 has no model name
        model = [text.split(':')[1].strip() for text in file if text.startswith(('model name', 'CPU part'))]
    facts = {'date': datetime.date.today().isoformat(), 'kernel': os.uname().release, 'cpus': len(CPUS),
             'cpu': (model or [os.uname().machine])[0], 'amount': AMOUNT, 'load': round(os.getloadavg()[0], 2),
             'commit': printed('git', '-C', HERE, 'describe', '--always', '--dirty'), 'seconds': seconds}
    for name, command in {'perf': 'perf', **BUILDS}.items():
        if shutil.which(command):
            facts[name] = printed(command, '--version')
    return facts


def figure(value, unit):
    """A number with two digits, as the pages show it."""
    number_of, unit = (value / 1000, 'ms') if unit == 'µs' and value >= 1000 else (value, unit.split(' ')[0])
    digits = 1 - math.floor(math.log10(number_of)) if number_of > 0 else 0
    return f'{round(number_of, digits):.{max(digits, 0)}f} {unit}'.strip()


def write_figures(facts):
    """The figures of the pages: pages.py compares them. Rows of earlier runs stay below the line with the facts of their run
    until they are measured again."""
    path, kept = os.path.join(OUT, 'bench-figures.tsv'), []
    measured = {entry['page'] for entry in rows} | set(growths)
    with contextlib.suppress(FileNotFoundError), open(path, encoding='utf-8') as earlier:
        kept = [text for text in earlier if text.split('\t')[0] not in measured]
    with open(path, 'w', encoding='utf-8') as out:
        out.writelines(text for text, following in zip(kept, kept[1:] + ['#'])
                       if not (text.startswith('#') and following.startswith('#')))
        out.write('# ' + ', '.join(f'{key} {value}' for key, value in facts.items() if value and key != 'seconds') + '\n')
        for entry in rows:
            if entry['page']:
                ratio = entry.get('pmcfs_ratio')
                out.write('\t'.join([entry['page'], figure(entry['pmcfs']['median'], entry['unit']),
                                     figure(entry['reference']['median'], entry['unit']) if 'reference' in entry else '',
                                     figure(ratio['median'], '') if ratio else '']).rstrip('\t') + '\n')
        out.writelines('\t'.join([name, *figures]) + '\n' for name, figures in growths.items())


def write(facts):
    draw()
    if AMOUNT == 'full':
        write_figures(facts)
    for text in notes:
        print(text)
    with open(os.path.join(OUT, 'bench.json'), 'w', encoding='utf-8') as out:
        json.dump({'about': facts, 'rows': rows, 'curves': curves, 'notes': notes}, out, indent=1, ensure_ascii=False)
        out.write('\n')
    print(f'{OUT}/bench.json')
