#!/usr/bin/python3
"""Prints the growth of each count, one line per second, N times: held.py PMC [N]"""
import os, sys, time

fd = os.open(sys.argv[1] + "/count", os.O_RDONLY)
read = lambda: [int(line) for line in os.pread(fd, 65536, 0).split()]  # a fresh value each time
before = read()
for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 10):
    time.sleep(1)
    after = read()
    print(*(new - old for new, old in zip(after, before)), flush=True)
    before = after
