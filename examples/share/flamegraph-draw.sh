# shellcheck shell=sh
# The picture of pmc-flamegraph: an SVG with a script for browsers.
# shellcheck disable=SC2154,SC2016 # what pmc-flamegraph and common.sh set; awk's

style() {
    cat <<'END'
text { font: 12px monospace; fill: #000; pointer-events: none; white-space: pre }
.title { font: bold 17px sans-serif }
.note { font: 12px sans-serif; fill: #555 }
rect { stroke: #fff; stroke-width: 0.4 }
g:hover rect { stroke: #000; stroke-width: 1 }
.above { opacity: 0.5 }
.hit rect { fill: #e040e0 }
.reset { font: 12px sans-serif; fill: #06c; cursor: pointer; pointer-events: all }
.all { fill: #ddd }
g[data-box] { cursor: pointer }
END
}

# The script of the picture. Where it does not run, as in an image on a page, the picture looks the same.
script() {
    cat <<'END'
(function () {
    "use strict";
    var svg = document.currentScript.parentNode, space = svg.namespaceURI;
    var width = +svg.dataset.width, boxes, zoomed, field;

    function add(parent, kind, attributes) {
        var element = document.createElementNS(space, kind);
        for (var name in attributes) element.setAttribute(name, attributes[name]);
        return parent.appendChild(element);
    }
    // Each has its first sample, its number of samples and its level.
    function box(g) {
        var at = g.dataset.box.split(" "), rect = g.querySelector("rect"), title = g.querySelector("title");
        return {
            g: g, rect: rect, title: title, from: +at[0], size: +at[1], level: +at[2],
            name: title.textContent.replace(/ \(\d+ samples, [\d.]+ %(; before: [\d.]+ %)?\)$/, ""),
            text: g.querySelector("text") || add(g, "text", { y: +rect.getAttribute("y") + 12 })
        };
    }
    function inside(box, other) {
        return box.level >= other.level && box.from >= other.from && box.from + box.size <= other.from + other.size;
    }
    // A column is as wide as a letter; letters of wide scripts have two.
    function fit(box, x, pixels) {
        var room = Math.floor((pixels - 6) / 7.2), letters = Array.from(box.name), used = 0, kept = "", i;
        var wide = letters.map(function (c) { return c.codePointAt(0) < 0x800 ? 1 : 2; });
        var all = wide.reduce(function (a, b) { return a + b; }, 0);
        if (all <= room) {
            kept = box.name;
            used = all;
        } else if (room >= 3) {
            for (i = 0; used + wide[i] <= room - 2; i++) {
                kept += letters[i];
                used += wide[i];
            }
            kept += "..";
            used += 2;
        }
        box.text.textContent = kept;
        box.text.setAttribute("x", x + 3);
        box.text.setAttribute("textLength", Math.max(used, 1) * 7.2);
    }
    function zoom(to) {
        var scale = width / to.size;
        zoomed = to;
        boxes.forEach(function (box) {
            var above = box !== to && inside(to, box), seen = above || inside(box, to);
            var x = above ? 0 : (box.from - to.from) * scale, pixels = above ? width : box.size * scale;
            box.g.style.display = seen ? "" : "none";
            if (!seen) return;
            box.g.classList.toggle("above", above);
            box.rect.setAttribute("x", 10 + x);
            box.rect.setAttribute("width", pixels);
            fit(box, 10 + x, pixels);
        });
        search();
    }
    // The samples of a frame in a frame that matches, too, count once; the root is no function.
    function search() {
        var expression = null, samples = 0, end = -1, matched = "";
        try {
            if (field.value) expression = new RegExp(field.value);
        } catch (error) {
            matched = "not a regular expression";
        }
        boxes.forEach(function (box) {
            var hit = expression !== null && box.level > 0 && expression.test(box.name);
            box.g.classList.toggle("hit", hit);
            if (!hit || box.from < end || !inside(box, zoomed)) return;
            samples += box.size;
            end = box.from + box.size;
        });
        if (expression) matched = "matched: " + (100 * samples / zoomed.size).toFixed(2) + " %";
        svg.querySelector(".matched").textContent = matched;
        svg.querySelector(".reset").style.display = zoomed !== boxes[0] || field.value ? "" : "none";
    }
    function reset() {
        field.value = "";
        zoom(boxes[0]);
    }

    boxes = Array.from(svg.querySelectorAll("g[data-box]"), box);
    field = document.createElementNS("http://www.w3.org/1999/xhtml", "input");
    field.placeholder = "search (regular expression)";
    field.setAttribute("style", "box-sizing: border-box; width: 100%; font: 12px sans-serif");
    add(svg, "foreignObject", { x: width - 190, y: 6, width: 200, height: 24 }).appendChild(field);
    add(svg, "text", { x: 10, y: 22, "class": "reset" }).textContent = "reset";
    field.addEventListener("input", search);
    svg.querySelector(".reset").addEventListener("click", reset);
    document.addEventListener("keydown", function (event) {
        if (event.key === "Escape") reset();
    });
    boxes.forEach(function (box) {
        box.g.addEventListener("click", function () { zoom(box); });
        box.g.addEventListener("mouseover", function () {
            svg.querySelector(".under").textContent = box.title.textContent;
        });
        box.g.addEventListener("mouseout", function () { svg.querySelector(".under").textContent = ""; });
    });
    zoom(boxes[0]);
}());
END
}

# draw: prints the picture of the sorted lines of stacks_prepare. note is shown after the number of samples.
draw() {
    style=$(style) script=$(script) title=$title note=$note awk -v width="$width" -v least="$minimum_percent" "$text_functions"'
    function escaped(text) {
        gsub(/&/, "\\&amp;", text)
        gsub(/</, "\\&lt;", text)
        gsub(/>/, "\\&gt;", text)
        return text
    }
    function box_open(level, text) {
        name[++boxes] = text
        first[boxes] = total
        first_before[boxes] = total_before
        depth[boxes] = level
        open[level] = boxes
    }
    function boxes_close(above) {
        for (; level >= above; level--) {
            size[open[level]] = total - first[open[level]]
            before[open[level]] = total_before - first_before[open[level]]
            at_level[level] += size[open[level]]
        }
    }
    function is_shown(i) {
        return size[i] > 0 && 100 * size[i] >= least * total && depth[i] <= highest
    }
    # The growth of the share of a frame in the samples.
    function growth(i) {
        return size[i] / total - before[i] / total_before
    }
    # Red: more than before, blue: less.
    function difference(i,    pale) {
        pale = 255 - int(215 * (growth(i) < 0 ? -growth(i) : growth(i)) / most)
        return growth(i) > 0 ? "rgb(255," pale "," pale ")" : "rgb(" pale "," pale ",255)"
    }
    # The kernel is blue, generated code is green; a name has one shade wherever it is.
    function shade(text,    i, sum) {
        if (text in shades) return shades[text]
        for (i = 1; i <= length(text) && i <= 99; i++) sum = (33 * sum + code[substr(text, i, 1)]) % 65521
        shades[text] = (text ~ /_\[k\]$|^\[kernel\+/ ? "k" : text ~ /_\[j\]$|^\[[0-9]+:0x/ ? "j" : "u") sum % 8
        return shades[text]
    }
    function shades_print(    i) {
        for (i = 0; i < 8; i++) {
            printf ".u%d { fill: rgb(%d,%d,%d) }\n", i, 240 + i * 2, 115 + i * 15, 50 + i * 6
            printf ".k%d { fill: rgb(%d,%d,%d) }\n", i, 110 + i * 11, 160 + i * 8, 215 + i * 4
            printf ".j%d { fill: rgb(%d,%d,%d) }\n", i, 110 + i * 10, 190 + i * 5, 90 + i * 11
        }
    }
    # Returns the part of a text that fits into these columns, and sets used to its columns. Letters of wide scripts have two.
    function cut(text, room,    out, next_columns) {
        used = length(text)
        if (text !~ /[^ -~]/ && used <= room) return text
        if (room < 3) return ""
        if (text !~ /[^ -~]/) {
            used = room
            return substr(text, 1, room - 2) ".."
        }
        used = 0
        while (text != "") {
            if (!match(text, letter)) RLENGTH = 1
            next_columns = RLENGTH < 3 ? 1 : 2
            if (used + next_columns > room - 2) break
            used += next_columns
            out = out substr(text, 1, RLENGTH)
            text = substr(text, RLENGTH + 1)
        }
        if (text != "") used += 2
        return out (text == "" ? "" : "..")
    }
    function box_print(i,    x, y, w, text) {
        x = 10 + first[i] * scale
        w = size[i] * scale
        y = top + 17 * (deepest - depth[i])
        printf "<g data-box=\"%.0f %.0f %d\"><title>%s (%.0f samples, %.2f %%%s)</title>", first[i], size[i], depth[i],
            escaped(name[i]), size[i], 100 * size[i] / total,
            total_before ? sprintf("; before: %.2f %%", 100 * before[i] / total_before) : ""
        printf "<rect %s x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"16\"/>", i == 1 ? "class=\"all\"" : \
            total_before ? "fill=\"" difference(i) "\"" : "class=\"" shade(name[i]) "\"", x, y, w
        text = cut(name[i], int((w - 6) / 7.2))
        if (text != "")
            printf "<text x=\"%.2f\" y=\"%d\" textLength=\"%.1f\">%s</text>", x + 3, y + 12, used * 7.2, escaped(text)
        print "</g>"
    }
    BEGIN {
        text_begin()
        FS = "\002"
        box_open(0, "all")
    }
    {
        n = split($1, frame, "\001")
        for (same = 1; same <= n && same <= level && frame[same] == name[open[same]]; same++);
        boxes_close(same)
        for (level = same; level <= n; level++) box_open(level, frame[level])
        level = n
        total += $2
        total_before += $3
    }
    END {
        boxes_close(0)
        # Broken call chains are long and rare: they do not make the picture higher.
        for (highest = 0; at_level[highest + 1] > (highest < 48 || !least ? 0 : 0.01 * total); highest++);
        most = 1e-9
        for (i = 1; i <= boxes; i++)
            if (!is_shown(i)) left_out += size[i] > 0
            else {
                if (depth[i] > deepest) deepest = depth[i]
                if (total_before && (growth(i) > most || -growth(i) > most)) most = growth(i) < 0 ? -growth(i) : growth(i)
            }
        top = 60
        scale = (width - 20) / total
        height = top + 17 * (deepest + 1) + 26
        title = escaped(shown(ENVIRON["title"]))
        printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" data-width=\"%d\">\n",
            width, height, width, height, width - 20
        print "<title>" title "</title>\n<style>\n" ENVIRON["style"]
        shades_print()
        print "</style>"
        printf "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", width, height
        printf "<text class=\"title\" x=\"%d\" y=\"24\" text-anchor=\"middle\">%s</text>\n", width / 2, title
        printf "<text class=\"note\" x=\"%d\" y=\"44\" text-anchor=\"middle\">%.0f samples%s%s</text>\n", width / 2, total,
            escaped(ENVIRON["note"]), left_out ? sprintf("; %d frames of less than %s %% are left out", left_out, least) : ""
        printf "<text class=\"note matched\" x=\"%d\" y=\"44\" text-anchor=\"end\"/>\n", width - 10
        printf "<text class=\"note under\" x=\"10\" y=\"%d\"/>\n", height - 9
        for (i = 1; i <= boxes; i++)
            if (is_shown(i)) box_print(i)
        print "<script><![CDATA[\n" ENVIRON["script"] "\n]]></script>\n</svg>"
    }'
}

