# shellcheck shell=dash
# The unit tests and the programs on one backend, on this architecture: nothing may depend on another.

t_unit() { /tests/unit; }

t_host() { /tests/host; }

t_attach() { /tests/attach; }

t_events() { /tests/events; }
