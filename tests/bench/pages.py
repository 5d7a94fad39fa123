"""Checks that README.md and tests/bench/README.md show the figures of bench-figures.tsv, which a full run of the benchmark
writes: each row of their tables has its values, and the text has no other times and sizes."""
import os, re, sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..')
NUMBER = re.compile(r'[0-9][0-9.,]* (?:µs|ms|s|KiB|MiB|bytes)\b')
wrong = []


def read(path):
    with open(os.path.join(ROOT, path), encoding='utf-8') as file:
        return file.read()


def section(path, heading):
    text = read(path)
    begin = text.index(f'\n## {heading}\n')
    end = text.find('\n## ', begin + 1)
    return text[begin:end if end > 0 else len(text)]


figures = {}
for line in read('examples/pictures/bench-figures.tsv').splitlines():
    if not line.startswith('#'):
        name, *values = line.split('\t')
        figures[name] = [value for value in values if value]
known = {value for values in figures.values() for value in values}

wrong += [f'README.md: {number} is not in bench-figures.tsv' for number in NUMBER.findall(read('README.md'))
          if number.endswith('µs') and number not in known]
for path, heading in ('README.md', 'Cost'), ('tests/bench/README.md', 'Results'), ('tests/bench/README.md', 'Growth'):
    for line in section(path, heading).splitlines():
        wrong += [f'{path}: {number} is not in bench-figures.tsv' for number in NUMBER.findall(line) if number not in known]
        cells = [cell.strip() for cell in line.strip('|').split('|')]
        if not line.startswith('|') or not NUMBER.search(line):
            continue
        if cells[0] not in figures:
            wrong.append(f'{path}: bench-figures.tsv has no row "{cells[0]}"')
            continue
        shown = NUMBER.findall(line) + cells[3:]
        wrong += [f'{path}: "{cells[0]}" does not show {value}' for value in figures[cells[0]]
                  if value not in shown and (len(cells) > 3 or NUMBER.match(value))]

for line in wrong:
    print(line)
sys.exit(1 if wrong else 0)
