/*
 * The name of the processor: from /proc/cpuinfo, from arm64's implementer and part numbers, or of
 * the board.
 */
#include "backends/linux/machine/cpus.h"

#include <stdlib.h>
#include <string.h>

struct part {
    unsigned implementer, part;
    const char *name;
};

static const struct part parts[] = {
    {0x41, 0xd03, "ARM Cortex-A53"},
    {0x41, 0xd04, "ARM Cortex-A35"},
    {0x41, 0xd05, "ARM Cortex-A55"},
    {0x41, 0xd06, "ARM Cortex-A65"},
    {0x41, 0xd07, "ARM Cortex-A57"},
    {0x41, 0xd08, "ARM Cortex-A72"},
    {0x41, 0xd09, "ARM Cortex-A73"},
    {0x41, 0xd0a, "ARM Cortex-A75"},
    {0x41, 0xd0b, "ARM Cortex-A76"},
    {0x41, 0xd0c, "ARM Neoverse-N1"},
    {0x41, 0xd0d, "ARM Cortex-A77"},
    {0x41, 0xd0e, "ARM Cortex-A76AE"},
    {0x41, 0xd40, "ARM Neoverse-V1"},
    {0x41, 0xd41, "ARM Cortex-A78"},
    {0x41, 0xd44, "ARM Cortex-X1"},
    {0x41, 0xd46, "ARM Cortex-A510"},
    {0x41, 0xd47, "ARM Cortex-A710"},
    {0x41, 0xd48, "ARM Cortex-X2"},
    {0x41, 0xd49, "ARM Neoverse-N2"},
    {0x41, 0xd4a, "ARM Neoverse-E1"},
    {0x41, 0xd4d, "ARM Cortex-A715"},
    {0x41, 0xd4e, "ARM Cortex-X3"},
    {0x41, 0xd4f, "ARM Neoverse-V2"},
    {0x41, 0xd80, "ARM Cortex-A520"},
    {0x41, 0xd81, "ARM Cortex-A720"},
    {0x41, 0xd82, "ARM Cortex-X4"},
    {0x41, 0xd84, "ARM Neoverse-V3"},
    {0x41, 0xd8e, "ARM Neoverse-N3"},
    {0x43, 0x0a1, "Cavium ThunderX"},
    {0x43, 0x0af, "Cavium ThunderX2"},
    {0x46, 0x001, "Fujitsu A64FX"},
    {0x48, 0xd01, "HiSilicon Kunpeng 920"},
    {0x50, 0x000, "APM X-Gene"},
    {0x51, 0xc00, "Qualcomm Falkor"},
    {0x51, 0x800, "Qualcomm Kryo 2 Gold"},
    {0x51, 0x801, "Qualcomm Kryo 2 Silver"},
    {0x61, 0x022, "Apple Icestorm (M1)"},
    {0x61, 0x023, "Apple Firestorm (M1)"},
    {0xc0, 0xac3, "Ampere-1"},
    {0xc0, 0xac4, "Ampere-1A"},
};

/* Returns the value of a "key : value" line without trailing blanks. */
static struct word line_rest(const char *p)
{
    size_t len = strcspn(p, "\n");
    while (len > 0 && p[len - 1] == ' ')
        len--;
    return (struct word){p, len};
}

static bool field_print(const char *text, struct buf *out)
{
    /* x86 and s390; MIPS; LoongArch; PowerPC; RISC-V */
    static const char *const keys[] = {"model name", "cpu model", "Model Name", "cpu", "uarch"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *p = proc_field(text, keys[i]);
        struct word value = p ? line_rest(p) : (struct word){0};
        if (value.len > 0) {
            buf_add(out, value.p, value.len);
            return true;
        }
    }
    return false;
}

static unsigned field_number(const char *text, const char *key)
{
    const char *p = proc_field(text, key);
    return p ? (unsigned)strtoul(p, NULL, 0) : 0;
}

static void part_print(unsigned implementer, unsigned part, struct buf *out)
{
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].implementer == implementer && parts[i].part == part) {
            buf_str(out, parts[i].name);
            return;
        }
    buf_printf(out, "arm64 implementer 0x%02x part 0x%03x", implementer, part);
}

/* Prints one name for each kind of core, in the order of their CPUs. */
static bool parts_print(const char *text, struct buf *out)
{
    unsigned seen[8];
    unsigned n = 0;
    for (const char *p = text; (p = proc_field(p, "CPU implementer"));) {
        unsigned implementer = (unsigned)strtoul(p, NULL, 0);
        unsigned part = field_number(p, "CPU part");
        unsigned midr = implementer << 24 | field_number(p, "CPU variant") << 20 | 0xf << 16 |
                        part << 4 | field_number(p, "CPU revision");
        bool known = false;
        for (unsigned i = 0; i < n; i++)
            known = known || seen[i] == midr;
        if (known || n == sizeof seen / sizeof *seen)
            continue;
        if (n > 0)
            buf_str(out, ", ");
        seen[n++] = midr;
        part_print(implementer, part, out);
        buf_printf(out, " (MIDR 0x%08x)", midr);
    }
    return n > 0;
}

void host_cpu_name(struct host_state *state, struct buf *out)
{
    (void)state;
    char *text = proc_text("/proc/cpuinfo");
    bool named = text && (field_print(text, out) || parts_print(text, out));
    free(text);
    if (named)
        return;
    text = proc_text("/sys/firmware/devicetree/base/model");
    if (text && *text)
        buf_str(out, text);
    else
        buf_str(out, "unknown processor");
    free(text);
}
