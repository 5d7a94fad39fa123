# shellcheck shell=bash disable=SC2016,SC2034,SC2317
# examples/prometheus: one Prometheus scrapes two hosts with pmcfs, with the files unchanged. Two mounts represent the
# hosts; their exporters and Prometheus use the loopback of a separate network namespace.

EXAMPLES=${TEST_FILE%/tests/*}/examples/prometheus
NET=()

net_start() {
    local inside
    unshare --net sh -c 'busybox ip link set lo up && echo up && exec sleep infinity' >"$T/net" &
    inside=$!
    eventually 10 'grep -q up "$T/net"'
    NET=(nsenter "--net=/proc/$inside/ns/net")
    printf '127.0.0.1 localhost\n127.0.0.2 one.example\n127.0.0.3 two.example\n' >"$T/hosts"
    mount --bind "$T/hosts" /etc/hosts
}

# exporter NAME: mounts pmcfs as this host with the configuration $T/NAME.conf, and executes the steps of the README.
exporter() {
    mkdir -m 755 "$T/$1"
    sed -n '/^```sh/,/^```$/{ /^```/!p }' "$EXAMPLES/README.md" |
        sed "s#/pmc/#$M/#g; s#/var/lib/prometheus/node-exporter#$T/$1#; s#/etc/pmcfs.conf.d#$T/$1.conf.d#
            s#systemctl reload pmcfs#kill -HUP $DAEMON#" >"$T/lines"
    sh -e "$T/lines"
    eventually 10 'grep -q prometheus "$M/admin/tunables/readers"'
    "${NET[@]}" setpriv --reuid prometheus --regid prometheus --clear-groups -- prometheus-node-exporter \
        --collector.disable-defaults --collector.textfile --collector.textfile.directory="$T/$1" \
        --web.listen-address="$1.example:9100" >"$T/$1.log" 2>&1 &
}

# The configuration unchanged, except the intervals.
prometheus_start() {
    cp "$EXAMPLES"/*.yml "$T/"
    sed -i 's/_interval: 15s/_interval: 1s/' "$T/prometheus.yml"
    "${NET[@]}" prometheus --config.file="$T/prometheus.yml" --storage.tsdb.path="$T/tsdb" \
        --web.listen-address=localhost:9090 --log.level=warn >"$T/prometheus.log" 2>&1 &
}

# ask EXPRESSION…: prints a line for each value of each expression: the value, and the labels in the order of their names.
ask() {
    "${NET[@]}" /usr/bin/python3 -I - "$@" <<'P'
import json, sys, urllib.parse, urllib.request
for expression in sys.argv[1:]:
    url = "http://localhost:9090/api/v1/query?" + urllib.parse.urlencode({"query": expression})
    try:
        answer = json.load(urllib.request.urlopen(url, timeout=60))
    except urllib.error.HTTPError as error:
        sys.exit("%s: %s" % (expression, error.read().decode()))
    except OSError as error:
        sys.exit("%s: %s" % (expression, error))
    for sample in answer["data"]["result"]:
        print(sample["value"][1], *("%s=%s" % label for label in sorted(sample["metric"].items())))
P
}

# answered SECONDS EXPRESSION REGEX: waits until the answer matches, at most 4 × SECONDS.
answered() {
    local until=$((SECONDS + 4 * $1 + 1))
    until [[ $(ask "$2" 2>"$T/asked") =~ $3 ]]; do
        ((SECONDS < until)) || die "not within $((4 * $1)) s: '$2' is '$(ask "$2" 2>&1)'; $(tail -n 3 "$T/prometheus.log")"
        sleep 0.3
    done
}

# The queries of the dashboard's panels and variables, with everything chosen.
dashboard_queries() {
    /usr/bin/python3 -I - "$EXAMPLES/pmcfs.dashboard.json" <<'P'
import json, re, sys
board = json.load(open(sys.argv[1]))
assert board["title"] and board["uid"] and board["schemaVersion"]
places = [tuple(panel["gridPos"][key] for key in "xywh") for panel in board["panels"]]
for x, y, w, h in places:
    assert x + w <= 24 and sum(x < a + c and a < x + w and y < b + d and b < y + h for a, b, c, d in places) == 1, (x, y)
known = [variable["name"] for variable in board["templating"]["list"]]
queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
queries += [re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).expand(r"group by (\2) (\1)")
            for variable in board["templating"]["list"] if variable["type"] == "query"]
for query in queries:
    query = query.replace("$__rate_interval", "1m")
    for name in re.findall(r"\$(\w+)", query):
        assert name in known, name
    print(re.sub(r"\$\w+", ".*", query))
P
}

t_prometheus_takes_the_configuration_and_the_rules() {
    mount_sim
    pmc a event=metric/ipc metrics=cpu mode=SC target=cpu0
    promtool check config "$EXAMPLES/prometheus.yml" >"$T/printed" 2>&1 || die "$(<"$T/printed")"
    grep -q 'SUCCESS: .* rules found' "$T/printed"
    promtool test rules "$EXAMPLES/pmcfs.rules.test.yml" >"$T/printed" 2>&1 || die "$(<"$T/printed")"
    empty promtool check metrics <"$M/metrics.prom"
}

#@ slow plain
t_one_prometheus_scrapes_two_hosts() {
    net_start
    target_start p
    mkdir "$T/one.conf.d" "$T/two.conf.d"
    touch "$T/one.conf" "$T/two.conf"
    mount_pmcfs -c "$T/one.conf"
    exporter one
    pmc faults event=page-faults event=context-switches "target=${PID_OF[p]}"
    pmc switches event=context-switches metrics=cpu target=all
    pmc log event=page-faults period=1 logsize=65536
    local real=$M
    mount_sim sim_cpus=4,sim_rows=4 -c "$T/two.conf"
    exporter two
    instance web
    pmc ipc event=metric/ipc "target=$$"
    pmc instances/web/cache event=metric/cache-miss-ratio "target=$$"
    pmc branch event=metric/branch-miss-ratio multiplex=on "target=$$"
    prometheus_start
    answered 60 'count(pmcfs_info)' '^2'
    for i in {1..200}; do
        echo "$i-$(printf 'x%.0s' {1..900})" >"$real/log/samples"
    done
    tell p faults 2000
    # both hosts, distinguished
    answered 60 'count by (instance, backend) (pmcfs_info)' \
        '1 backend=perf instance=one.example:9100.*1 backend=sim instance=two.example:9100'
    is "$(ask node_textfile_scrape_error | cut -d ' ' -f 1 | xargs)" '0 0'
    # a rate, of real events
    answered 60 'rate(pmcfs_count_total{pmc="faults", event="page-faults"}[5m]) > 0' \
        '^[0-9.]+ event=page-faults instance=one.example:9100 job=node pmc=faults scope=process$'
    answered 60 'pmc:pmcfs_count:rate5m{pmc="switches"} > 0' 'instance=one.example:9100 job=node pmc=switches scope=system$'
    # the results of the rules for simulated counters, whose values are known
    answered 60 'round(pmc:pmcfs_ipc:rate5m, 0.01)' '^2 .*instance=two.example:9100 job=node pmc=ipc scope=process$'
    answered 60 'round(subtree:pmcfs_cache_miss_ratio:rate5m, 0.01)' '^0.1 instance=two.example:9100 job=node subtree=web$'
    answered 60 'round(subtree:pmcfs_branch_miss_ratio:rate5m, 0.001)' '^0.02 instance=two.example:9100 job=node$'
    # an alert
    answered 60 'ALERTS{alertname="PmcfsRecordsLost"}' 'alertstate=firing instance=one.example:9100 job=node pmc=log$'
    # every panel has something to show
    dashboard_queries >"$T/queries"
    between "$(wc -l <"$T/queries")" 10 100
    local query
    while IFS= read -r query; do
        answered 30 "$query" '^[0-9]'
    done <"$T/queries"
}

#@ slow plain
t_collectd_reads_the_counts_in_the_tree() {
    mount_pmcfs
    target_start p
    instance web
    pmc a event=page-faults event=context-switches "target=${PID_OF[p]}"
    pmc instances/web/b event=page-faults "target=${PID_OF[p]}"
    {
        printf '%s\n' 'Hostname "one"' 'FQDNLookup false' 'Interval 1' "PIDFile \"$T/pid\"" "BaseDir \"$T\"" \
            'LoadPlugin csv' '<Plugin csv>' "  DataDir \"$T/csv\"" '</Plugin>' 'LoadPlugin logfile' \
            '<Plugin logfile>' "  File \"$T/collectd.log\"" '</Plugin>'
        sed "s#\"/pmc/#\"$M/#" "$EXAMPLES/collectd.conf"
    } >"$T/collectd.conf"
    collectd -f -C "$T/collectd.conf" >"$T/printed" 2>&1 &
    tell p faults 1000
    values() { find "$T/csv/one" -name "derive-$1-*" -exec tail -n 1 {} + 2>/dev/null | cut -d , -f 2; }
    for name in a-page-faults instances_web_b-page-faults; do
        eventually 20 '[[ $(values $name) -ge 1000 ]]'
    done
    eventually 20 '[[ $(values a-context-switches) ]]'
    ! grep 'table plugin' "$T/collectd.log" || die 'collectd reports an error'
}
