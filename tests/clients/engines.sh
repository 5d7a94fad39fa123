# shellcheck shell=bash disable=SC2016,SC2034,SC2086
# The files of examples/containers unchanged: podman as root and as a user, bubblewrap, and the files for Docker and
# Kubernetes with podman.

EXAMPLES=${TEST_FILE%/tests/*}/examples/containers
ROOM=/run/alice
TREE=/run/pmc/tree

# engine: configures podman so that all its files are in a /run of this test, without systemd or a network. The limits
# are given because its default ones are higher than a user may set.
engine() {
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir -p "$ROOM/run" /run/pmc
    mount -t tmpfs -o mode=755 tmpfs /run/pmc # runc makes the mount private that a plain directory of storage is on
    mount --make-rshared /run/pmc
    chown -R "$ALICE:$ALICE" "$ROOM"
    cat >/run/storage.conf <<C
[storage]
driver = "vfs"
graphroot = "/run/storage"
runroot = "/run/run"
rootless_storage_path = "$ROOM/storage"
C
    cat >/run/containers.conf <<C
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "$(basename "$(command -v runc || command -v crun)")"
C
    export CONTAINERS_STORAGE_CONF=/run/storage.conf CONTAINERS_CONF=/run/containers.conf
    image_make
}

# image_make [COMMAND…]: builds the image of the README with COMMAND and runs it; skips the test if the engine cannot.
image_make() {
    cp "$EXAMPLES/image.sh" "$T/" # a user may not reach the sources
    cp "$BIN" "$T/pmcfs"
    readme 'An image' "$@" >"$T/image" 2>&1 || die "no image: $(<"$T/image")"
    "$@" podman run --rm --network none localhost/pmcfs true >"$T/first" 2>&1 ||
        skip "podman does not run here${*:+ for a user}: $(tail -n 1 "$T/first")"
}

# readme HEADING [COMMAND…]: its lines in the README, with this mount and this program, in a shell that COMMAND runs.
readme() {
    awk -v heading="## $1" '/^## / { here = $0 == heading } /^```$/ { on = 0 } here && on; /^```sh$/ { on = 1 }' \
        "$EXAMPLES/README.md" >"$T/lines"
    [[ -s $T/lines ]] || die "no lines below $1"
    sed -i "s#/pmc/\(instances\|admin\)#$M/\1#g; s#build/pmcfs#$T/pmcfs#; s#examples/containers#$T#" "$T/lines"
    "${@:2}" sh -e "$T/lines"
}

# alice_make: makes alice a user of the machine with subordinate ids. of_alice COMMAND…: runs a command as this user.
alice_make() {
    local file
    (echo "alice:x:$ALICE:$ALICE::$ROOM:/bin/sh" && grep -v "^[^:]*:[^:]*:$ALICE:" /etc/passwd) >"$T/passwd"
    echo alice:100000:65536 | tee "$T/subuid" >"$T/subgid"
    for file in passwd subuid subgid; do
        [[ -e /etc/$file ]] || touch "/etc/$file"
        mount --bind "$T/$file" "/etc/$file"
    done
}
of_alice() {
    (cd "$ROOM" && as "$ALICE" env "HOME=$ROOM" "XDG_RUNTIME_DIR=$ROOM/run" "$@")
}

# run_from_file FILE NAME OPTION…: podman runs this container of the file with additional options. A key that is not
# translated is an error.
run_from_file() {
    local words
    /usr/bin/python3 -B -I - "$EXAMPLES/$1" "$2" >"$T/words" <<'P'
import re, resource, sys, yaml

POD_UID = "0ed1"
words = ["--network", "none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]

def add(option, *values):
    for value in values:
        words.extend((option, str(value)))

def service(it):
    assert it.pop("network_mode") == "none"
    for key in "cap_add", "cap_drop", "security_opt":
        add("--" + key.replace("_", "-"), *it.pop(key, []))
    add("--device", *it.pop("devices", []))
    for key in {"pid", "user"} & set(it):
        add("--" + key, it.pop(key))
    for key, n in it.pop("ulimits", {}).items(): # as many as there are here
        add("--ulimit", "%s=%d" % (key, min(n, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    if it.pop("read_only", False):
        words.append("--read-only")
    for volume in it.pop("volumes"):
        if not isinstance(volume, str):
            assert volume.pop("type") == "bind"
            volume = ":".join([volume.pop("source"), volume.pop("target"), *volume.pop("bind", {}).values()])
        add("-v", volume)

def container(pod, it):
    environment = {}
    for variable in it.pop("env", []):
        assert variable["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
        environment[variable["name"]] = POD_UID
    add("--env", *map("=".join, environment.items()))
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    for mount in it.pop("volumeMounts"):
        source = paths[mount.pop("name")]
        if "subPathExpr" in mount:
            source += "/" + re.sub(r"\$\((\w+)\)", lambda name: environment[name[1]], mount.pop("subPathExpr"))
        how = {"Bidirectional": "rshared", "HostToContainer": "rslave", None: "rprivate"}[mount.pop("mountPropagation", None)]
        add("-v", ":".join((source, mount.pop("mountPath"), how + (",ro" if mount.pop("readOnly", False) else ""))))
        assert not mount, mount
    rights = it.pop("securityContext")
    if rights.pop("privileged", False):
        words.append("--privileged")
    if "runAsUser" in rights:
        add("--user", "%d:%d" % (rights.pop("runAsUser"), rights.pop("runAsGroup")))
    if not rights.pop("allowPrivilegeEscalation", True):
        add("--security-opt", "no-new-privileges")
    capabilities = rights.pop("capabilities", {})
    add("--cap-drop", *capabilities.pop("drop", []))
    assert not rights and not capabilities, (rights, capabilities)
    if pod.get("hostPID"):
        add("--pid", "host")
    if pod.get("shareProcessNamespace"):
        add("--pid", "container:pod")
    assert it.pop("name") and it.pop("imagePullPolicy") == "IfNotPresent"

def find(documents, name):
    for document in documents:
        if "services" in document:
            it = document["services"][name]
            service(it)
            return it
        pod = document["spec"]
        if document["kind"] == "DaemonSet":
            assert document["apiVersion"] == "apps/v1"
            assert pod["selector"]["matchLabels"] == pod["template"]["metadata"]["labels"]
            pod = pod["template"]["spec"]
        for it in pod.get("initContainers", []) + pod["containers"]:
            if it["name"] == name:
                container(pod, it)
                return it

it = find(yaml.safe_load_all(open(sys.argv[1])), sys.argv[2])
words += [it.pop("image"), *it.pop("command")]
assert not it, it
sys.stdout.write("".join(word + "\0" for word in words))
P
    mapfile -d '' -t words <"$T/words"
    timeout 40 podman run --name "$2" "${@:3}" "${words[@]}" >"$T/printed" 2>&1 || die "$2: $(<"$T/printed")"
}

serves() { # waits until pmcfs in a container answers
    local until=$((SECONDS + 60))
    until cat $TREE/info/version &>/dev/null; do
        ((SECONDS < until)) || die "no tree: $(podman logs pmcfs 2>&1)"
        sleep 0.1
    done
}

counted() { # PATH: waits until this PMC of pmcfs in a container has counted
    eventually 30 "grep -q \$'^$1\ttask-clock\t[1-9][0-9]*\t.*running' $TREE/counts"
}

#@ slow plain
t_podman_of_root_runs_the_readme() {
    mount_pmcfs
    engine
    readme 'podman of root' >"$T/printed" 2>&1 || die "$(<"$T/printed")"
    like "$(<"$T/printed")" $'^i\ttask-clock\t[1-9][0-9]*\t.*\trunning$'
    eventually 10 '[[ ! -e $M/instances/web ]]'
}

#@ slow plain
t_podman_gives_an_instance_to_root_without_more_rights() {
    mount_pmcfs
    engine
    instance one
    instance two
    mkdir "$M/mine" "$M/instances/two/theirs"
    podman run --rm --network none -v "$M/instances/one:/pmc" localhost/pmcfs sh -c '
        id -u
        ls /pmc | xargs
        mkdir /pmc/i && echo page-faults >/pmc/i/event && echo self >/pmc/i/target
        cat /pmc/i/target /pmc/counts
        echo "event=page-faults target=cpu0" >/pmc/i/config || cat /pmc/i/error
        mkdir /pmc/s && echo "event=page-faults target=cpu0" >/pmc/s/config || cat /pmc/s/error
        find /pmc -name "[a-z]*" ! -name "samples*" ! -path "/pmc/events/*" -type f -exec grep -l -e mine -e theirs {} +' \
        >"$T/printed" 2>"$T/complaints" || :
    is "$(sed -n 1,3p "$T/printed" | xargs)" '0 README counts events info metrics.prom 1' 'root, what is there, self'
    grep -q $'^i\tpage-faults\t[0-9]*\t' "$T/printed"
    grep -q '^EPERM X07 config: ' "$T/printed"
    is "$(grep '^/pmc' "$T/printed")" '' 'files that name others'
    grep -q $'^instances/one/i\tpage-faults\t' "$M/counts"
}

#@ slow plain
t_podman_of_a_user_runs_the_readme() {
    alice_make
    mount_pmcfs
    engine
    image_make of_alice
    instance web "$ALICE"
    readme 'podman of a user' of_alice >"$T/printed" 2>&1 || die "$(<"$T/printed")"
    like "$(<"$T/printed")" $'(^|\n)i\ttask-clock\t[1-9][0-9]*\t[^\n]*\trunning$'
    is "$(stat -c %u "$M/instances/web/i")" "$ALICE" 'root of the container'
    # and its other users are its subordinate ones
    chmod 1777 "$M/instances/web"
    of_alice podman run --rm --network none --user 33 -v "$M/instances/web:/pmc" localhost/pmcfs mkdir /pmc/w \
        >"$T/printed" 2>&1 || die "$(<"$T/printed")"
    is "$(stat -c %u "$M/instances/web/w")" 100032 'user 33 of the container'
}

#@ slow plain
t_bubblewrap_runs_the_readme() {
    as "$ALICE" bwrap --unshare-all --ro-bind / / true 2>/dev/null || skip 'bubblewrap gets no namespaces here'
    mount_pmcfs
    instance web "$ALICE"
    mkdir "$M/mine"
    readme bubblewrap as "$ALICE" >"$T/printed" 2>&1 || die "$(<"$T/printed")"
    like "$(<"$T/printed")" $'^i\ttask-clock\t[1-9][0-9]*\t[^\n]*\trunning$'
}

#@ slow plain
t_compose_yaml_runs_pmcfs_in_a_container() {
    with_tracefs
    engine
    run_from_file compose.yaml pmcfs -d
    serves
    mkdir $TREE/instances/web
    chown "$ALICE:$ALICE" $TREE/instances/web
    run_from_file compose.yaml web -d
    counted instances/web/i
    eventually 20 'podman logs web 2>&1 | grep -q "^i.task-clock"'
    # The host's processes are counted for the host.
    target_start p
    mkdir $TREE/a
    accepted $TREE/a/config event=page-faults "target=${PID_OF[p]}"
    tell p faults 1000
    between "$(<$TREE/a/count)" 1000 5000
    # If both processes are killed at once (stopped first, so that neither notices the death of the other), they leave a
    # dead mount, which the next start removes.
    local first serving
    first=$(podman inspect -f '{{.State.Pid}}' pmcfs)
    serving=$(cat "/proc/$first/task/$first/children")
    kill -STOP "$first" $serving
    kill -KILL $serving "$first"
    podman wait pmcfs >/dev/null
    fails_with ENOTCONN "cat $TREE/counts"
    podman start pmcfs >/dev/null
    serves
    is "$(<$TREE/counts)" '' 'a new mount'
    fails_with ENOTCONN 'podman exec web cat /pmc/counts'
    podman stop pmcfs >/dev/null
    ! mountpoint -q $TREE || die 'it is still mounted'
    podman rm -a -f -t 0 >/dev/null
}

#@ slow plain
t_kubernetes_yaml_runs_pmcfs_in_a_pod() {
    with_tracefs
    engine
    run_from_file kubernetes.yaml pmcfs -d
    serves
    podman run -d --name pod --network none localhost/pmcfs sleep 1000 >/dev/null # the process with the namespaces of a pod
    run_from_file kubernetes.yaml instance
    podman rm -f instance >/dev/null
    run_from_file kubernetes.yaml instance # again, like a restarted pod
    is "$(<$TREE/admin/instances/0ed1/max_pmcs)" 20
    run_from_file kubernetes.yaml work -d
    counted instances/0ed1/i
    # The instance belongs to the PID namespace of the pod, and is released with the pod.
    podman kill work >/dev/null
    podman wait work >/dev/null
    [[ -e $TREE/instances/0ed1/i ]]
    podman kill pod >/dev/null
    eventually 20 '[[ ! -e $TREE/instances/0ed1 ]]'
    podman stop pmcfs >/dev/null
    ! mountpoint -q $TREE || die 'it is still mounted'
    podman rm --depend -f -t 0 pod pmcfs >/dev/null
}
