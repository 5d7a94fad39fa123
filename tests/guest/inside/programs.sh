# shellcheck shell=dash
# The unit tests and the programs on one backend, on this architecture: nothing may depend on another.

#@ asked
t_engine() { /tests/unit; }

#@ asked
t_host() { /tests/host; }

# Fewer races than elsewhere: each takes a second here.
t_attach() { /tests/attach 40; }

t_events() { /tests/events; }

t_record() { /tests/record; }
