# shellcheck shell=sh
# Reading logs for pmcstat: from the lines of `samples` to the stacks that pmcstat-graph.sh takes. awk does it,
# mawk as well as gawk; names of functions come from readelf (binutils) and the kernel's list of symbols,
# and addresses without a name are printed as in samples.folded.

# Settings of the reader: fields of logs are escaped, so that none contains a blank.
# shellcheck disable=SC2034 # pmcstat and pmcstat-graph.sh use them
log_root='' log_kernel=/proc/kallsyms log_raw='' log_lwp='' log_depth=16 log_threshold=0.5

# A log may come from another user, and a program has the names of its sources: bytes other than printable ASCII are
# escaped as in the tree, so that none of them goes to a terminal.
# shellcheck disable=SC2016 # awk's
log_shown='
function shown(text,    i, c, out) {
    if (text !~ /[^ -~]/) return text
    for (i = 1; (c = substr(text, i, 1)) != ""; i++) out = out (c ~ /[ -~]/ ? c : sprintf("\\%03o", code[c]))
    return out
}
BEGIN { for (i = 1; i < 256; i++) code[sprintf("%c", i)] = i }
/[^ -~]/ { $0 = shown($0) }
'

# Addresses as numbers, and the mappings of each process.
# shellcheck disable=SC2016 # awk's
log_spaces='
# The last 13 hexadecimal digits of an address: as much as a number holds exactly, and enough.
function digits(text,    i, n) {
    for (i = 1; i <= length(text); i++) n = n * 16 + digit[substr(text, i, 1)]
    return n + 0
}
function address(text,    head, tail) {
    sub(/^0x/, "", text)
    if (length(text) > 13) text = substr(text, length(text) - 12)
    if (length(text) < 5) return digits(text)
    head = substr(text, 1, length(text) - 4)
    tail = substr(text, length(text) - 3)
    if (!(head in known)) known[head] = digits(head)
    if (!(tail in known)) known[tail] = digits(tail)
    return known[head] * 65536 + known[tail]
}
function hex(n) {
    return n < 2147483648 ? sprintf("0x%x", n) : sprintf("0x%x%08x", int(n / 4294967296), n % 4294967296)
}
function plain(text,    at, n, out) {
    while ((at = index(text, "\\")) > 0) {
        n = substr(text, at + 1, 1) * 64 + substr(text, at + 2, 1) * 8 + substr(text, at + 3, 1)
        out = out substr(text, 1, at - 1) sprintf("%c", n)
        text = substr(text, at + 4)
    }
    return out text
}
function base(path) { sub(/.*\//, "", path); return path }
function quoted(text) { gsub(/\047/, "\047\\\047\047", text); return "\047" text "\047" }

function fields(    i, at) {
    split("", field)
    for (i = 3; i <= NF; i++) {
        at = index($i, "=")
        field[substr($i, 1, at - 1)] = substr($i, at + 1)
    }
    space = field["pmc"] ":" field["pid"]
}
function forget(space) { maps[space] = 0; age[space] = ++ages }
# Adds a mapping. The newest mapping of an address counts; an unmapped range is a mapping without a path.
function map_add(space, start, end, offset, path,    i) {
    i = ++maps[space]
    low[space, i] = start; high[space, i] = end; file_at[space, i] = offset; object[space, i] = path
    age[space] = ++ages
}
function map_find(space, at,    i) {
    for (i = maps[space]; i > 0; i--)
        if (at >= low[space, i] && at < high[space, i]) return i
    return 0
}
function fork(child, parent,    i) {
    forget(child)
    for (i = 1; i <= maps[parent]; i++)
        map_add(child, low[parent, i], high[parent, i], file_at[parent, i], object[parent, i])
    comm[child] = comm[parent]
}

BEGIN {
    for (i = 0; i < 16; i++) digit[substr("0123456789abcdef", i + 1, 1)] = i
    root = ENVIRON["LOG_ROOT"]
    kernel = ENVIRON["LOG_KERNEL"]
    scratch = ENVIRON["LOG_SCRATCH"]
    statistics = ENVIRON["LOG_STATISTICS"]
}
$2 == "map-in" {
    fields()
    if (field["pid"] != "-1")
        map_add(space, address(field["start"]), address(field["end"]), address(field["offset"]),
            field["path"])
    next
}
$2 == "map-out" { fields(); map_add(space, address(field["start"]), address(field["end"]), 0, ""); next }
$2 == "fork" { fields(); fork(field["pmc"] ":" field["child"], space); next }
$2 == "process" { fields(); comm[space] = field["name"]; next }
$2 == "exec" {
    fields()
    forget(space)
    comm[space] = substr(base(field["path"]), 1, 15)
    executed[field["path"]]++
    next
}
$2 == "drop" {
    fields()
    dropped += field["records" in field ? "records" : "lost"]
    if (field["where"] == "hidden") hidden += field["lost"]
    else if (field["where"] != "inventory") lost += field["lost"]
    next
}
'

# Names of places in objects and in the kernel.
# shellcheck disable=SC2016 # awk's
log_symbols='
function symbol_add(image, start, size, name) {
    sub(/@.*/, "", name)
    gsub(/;/, "\\073", name)
    symbols[image]++
    from[image, symbols[image]] = start
    sized[image, symbols[image]] = size
    called[image, symbols[image]] = name
}
# Reads the loaded segments of a file and its functions with readelf, in order of address.
function elf_load(image,    path, command, part) {
    if (image in symbols) return
    symbols[image] = loads[image] = 0
    path = plain(image)
    if (path !~ /^\//) return
    path = quoted(root path)
    command = "[ -f " path " ] && readelf -lsW -- " path " 2>/dev/null | sort -s -b -k 2,2"
    while ((command | getline) > 0) {
        if ($1 == "LOAD") {
            part = ++loads[image]
            part_at[image, part] = address($2)
            part_low[image, part] = address($3)
            part_size[image, part] = address($5)
        } else if (($4 == "FUNC" || $4 == "IFUNC") && $7 != "UND" && $8 != "" && address($2) > 0)
            symbol_add(image, address($2), $3 ~ /^0x/ ? address($3) : $3 + 0, $8)
    }
    close(command)
}
# Kernel addresses may be shifted against the list, by the same offset as the kernel text.
function kernel_load(    command, i, text, line, word) {
    if ("kernel" in symbols) return
    symbols["kernel"] = 0
    command = quoted(kernel)
    command = "if grep -qam 1 \"^[0-9a-f]* [A-Za-z] \" " command "; then cat " command "; else nm -- " \
        command "; fi 2>/dev/null | sort -s -k 1,1"
    while ((command | getline) > 0) {
        if ($2 !~ /^[tTwW]$/ || address($1) == 0) continue
        if ($3 == "_text" || $3 == "_stext") { if (!text) text = address($1) }
        symbol_add("kernel", address($1), 0, $3)
    }
    close(command)
    # A symbol extends to the next symbol.
    for (i = symbols["kernel"] - 1; i > 0; i--)
        if (from["kernel", i + 1] > from["kernel", i])
            sized["kernel", i] = from["kernel", i + 1] - from["kernel", i]
        else
            sized["kernel", i] = sized["kernel", i + 1]
    if (kernel == "/proc/kallsyms" || !text) return
    command = "grep -m 1 -E \" _s?text$\" /proc/kallsyms 2>/dev/null"
    if ((command | getline line) > 0 && split(line, word, " ") && address(word[1]))
        for (i = 1; i <= symbols["kernel"]; i++) from["kernel", i] += address(word[1]) - text
    close(command)
}
# Returns the number of the symbol that covers an address of an image, or 0. If several symbols have the same address,
# the first with a size is used.
function symbol_find(image, at,    left, right, middle, i) {
    left = 0; right = symbols[image]
    while (left < right) {
        middle = int((left + right + 1) / 2)
        if (from[image, middle] <= at) left = middle; else right = middle - 1
    }
    for (i = left; i > 0 && i > left - 20; i--)
        if (at < from[image, i] + sized[image, i]) {
            while (i > 1 && from[image, i - 1] == from[image, i] && sized[image, i - 1]) i--
            return i
        }
    if (left && !sized[image, left]) return left
    return 0
}

# Finds an address of a process. Returns the key of its results in r_name, r_image, r_place (address in the image, or -1),
# r_symbol (0: none) and r_trouble (the kind of an unknown sample).
function resolve(space, text, in_kernel, caller,    key, at) {
    key = (in_kernel ? "k" : space " " age[space]) " " text " " caller
    if (!(key in r_name)) {
        at = address(text) - caller
        r_image[key] = ""; r_place[key] = -1; r_symbol[key] = 0; r_trouble[key] = ""
        r_name[key] = in_kernel ? resolve_kernel(key, at) : resolve_user(key, space, at, caller)
        if (raw) r_name[key] = text
    }
    return key
}
function resolve_kernel(key, at) {
    kernel_load()
    r_image[key] = "kernel"; r_place[key] = at
    r_symbol[key] = symbol_find("kernel", at)
    return r_symbol[key] ? called["kernel", r_symbol[key]] "_[k]" : "[kernel]_[k]"
}
function resolve_user(key, space, at, caller,    i, image, part) {
    i = map_find(space, at)
    image = i ? object[space, i] : ""
    if (image == "") { r_trouble[key] = "unclaimed"; return "[unknown]" }
    r_image[key] = image
    if (image ~ /^(\/\/anon|\[anon|\/anon_hugepage|\/memfd:|\[heap|\[stack)/) {
        r_trouble[key] = "unknown-object"
        return "[anon+" hex(at + caller - low[space, i]) "]"
    }
    elf_load(image)
    at += file_at[space, i] - low[space, i]
    if (!loads[image]) r_trouble[key] = "unknown-object"
    for (part = 1; part <= loads[image]; part++)
        if (at >= part_at[image, part] && at < part_at[image, part] + part_size[image, part]) {
            r_place[key] = at - part_at[image, part] + part_low[image, part]
            r_symbol[key] = symbol_find(image, r_place[key])
        }
    if (r_symbol[key]) return called[image, r_symbol[key]]
    image = base(image)
    gsub(/;/, "\\073", image)
    return "[" image "+" hex(at + caller) "]"
}
'

# Samples. output: stacks, pcs (-m) or lines (-a).
# shellcheck disable=SC2016 # awk's
log_samples='
function framed(key,    image) {
    image = r_image[key]
    if (image == "") return r_name[key]
    gsub(/;/, "\\073", image)
    return r_name[key] "\001" (image == "kernel" ? "[kernel]" : image)
}
function pc_line(text, key,    i, image) {
    i = r_symbol[key]; image = r_image[key]
    if (!i) return text " - - -"
    if (raw) return text " " text " - -"
    return text " " called[image, i] " " hex_of(image, from[image, i]) " " \
        hex_of(image, from[image, i] + sized[image, i])
}
# Kernel addresses exceed the precision of numbers in awk, so their upper digits are constant.
function hex_of(image, n) {
    if (image != "kernel") return hex(n)
    n = substr(hex(n), 3)
    return "0xfff" substr("0000000000000", length(n) + 1) n
}

($2 == "sample" || $2 == "callchain") {
    fields()
    if (lwp != "" && field["tid"] != lwp) next
    total++
    n = $2 == "callchain" && field["ips"] != "-" ? split(field["ips"], ip, ",") : 0
    if (!n) { n = 1; ip[1] = field["ip"] }
    if (n == 1 && (field["ip"] ~ /^0xffff/)) ip[1] = "k:" field["ip"]
    stack = ""; was_kernel = 0
    for (i = 1; i <= n; i++) {
        in_kernel = sub(/^k:/, "", ip[i])
        key = resolve(space, ip[i], in_kernel, i > 1 && in_kernel == was_kernel ? 1 : 0)
        was_kernel = in_kernel
        if (i == 1) {
            if (r_trouble[key] != "") trouble[r_trouble[key]]++
            else if (!r_symbol[key]) trouble["unknown-function"]++
        } else if (r_trouble[key] == "unclaimed") trouble["dubious"]++
        if (output == "lines") { frames++; frame_text[frames] = ip[i]; frame_key[frames] = key }
        else if (output == "pcs") { print pc_line(ip[i], key); break }
        else stack = ";" framed(key) stack
    }
    if (output == "lines") { frames++; frame_text[frames] = "--" }
    if (output != "stacks") next
    name = comm[space]
    if (name == "") name = field["pid"] > 0 ? ":" field["pid"] : "[unknown]"
    gsub(/;/, "\\073", name)
    counts[field["event"] (field["pmc"] == "" ? "" : " pmc=" field["pmc"]) "\t" name stack]++
}
function statistic(name, value) { printf "#%s %d\n", name, value > statistics }
# The author of a program can point a debug link to a device or a pipe, so the lines are read from a copy without the
# link. Separate debug files are found by build-id.
function source_lines(    i, key, image, wanted, all, command, file, line, copy) {
    for (i = 1; i <= frames; i++) {
        key = frame_key[i]
        if (key == "" || !r_symbol[key] || r_image[key] == "kernel" || (key in source)) continue
        source[key] = "??:0"
        if (!(r_image[key] in wanted)) wanted[r_image[key]] = ""
        wanted[r_image[key]] = wanted[r_image[key]] SUBSEP key
    }
    for (image in wanted) {
        file = scratch "/lines"
        copy = quoted(scratch "/image")
        command = "objcopy -R .gnu_debuglink -R .gnu_debugaltlink " quoted(root plain(image)) " " copy \
            " 2>/dev/null && addr2line -e " copy " >" quoted(file) " 2>/dev/null"
        n = split(substr(wanted[image], 2), all, SUBSEP)
        for (i = 1; i <= n; i++) print hex(r_place[all[i]]) | command
        close(command)
        for (i = 1; i <= n && (getline line < file) > 0; i++) source[all[i]] = shown(line)
        close(file)
    }
}
END {
    if (output == "stacks")
        for (key in counts) print key "\t" counts[key]
    if (output == "lines") {
        source_lines()
        for (i = 1; i <= frames; i++) {
            key = frame_key[i]
            if (key == "") print frame_text[i]
            else if (!r_symbol[key]) print frame_text[i] " <unknown> ??:0"
            else print frame_text[i] " " r_name[key] " " (key in source ? source[key] : "??:0")
        }
    }
    if (statistics == "") exit
    for (path in executed) { elf_load(path); elves[loads[path] > 0] += executed[path] }
    printf "=%d samples, %d lost, %d hidden\n", total, lost, hidden > statistics
    statistic("exec/elf", elves[1])
    statistic("exec/unknown", elves[0])
    statistic("samples/total", total)
    statistic("samples/unclaimed", trouble["unclaimed"])
    statistic("samples/unknown-object", trouble["unknown-object"])
    statistic("samples/unknown-function", trouble["unknown-function"])
    statistic("callchain/dubious-frames", trouble["dubious"])
    statistic("records/dropped", dropped)
}
'

# log_read stacks|pcs|lines LOG [STATISTICS]: statistics are written to that file.
# shellcheck disable=SC2154 # common.sh sets it
log_read() {
    LC_ALL=C LOG_ROOT=$log_root LOG_KERNEL=$log_kernel LOG_SCRATCH=$scratch LOG_STATISTICS=${3-} \
        awk -v output="$1" -v lwp="$log_lwp" -v raw="$log_raw" "$log_shown$log_spaces$log_symbols$log_samples" <"$2"
}

# log_text LOG: its lines, or those of one thread.
log_text() {
    LC_ALL=C awk -v lwp="$log_lwp" "$log_shown"'
        lwp == "" || !match($0, / tid=[0-9]+/) || substr($0, RSTART + 5, RLENGTH - 5) == lwp' <"$1"
}
