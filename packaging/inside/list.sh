#!/bin/sh
# Every file of the tree below the current directory that packages could leave: not what systems that run write.
find . -xdev \( -path ./packaging -o -path ./lost+found -o -path ./run -o -path ./tmp -o -path ./proc -o -path ./sys -o -path ./dev \
    -o -path ./var/log -o -path ./var/lib/dpkg -o -path ./var/cache -o -path './var/lib/systemd/[!d]*' \) -prune -o -print | sort
