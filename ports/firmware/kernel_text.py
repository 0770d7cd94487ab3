#!/usr/bin/env python3
"""Bytes of flash that each kernel of a static program links, read off a library's objects: its function and all that it
calls, as a linker with --gc-sections keeps them.

  kernel_text.py BUILD > tools/evaluate/kernel_text_m4.inc

BUILD: of this library for arm/m4 at -Os (ports/firmware/README.md). Sections are of functions and of constants; those of
libm and libgcc too. Of a kernel that has a ready form (engine/kernels/ready.h) that is the one which static programs link.
"""
import collections
import re
import subprocess
import sys

KEPT = re.compile(r"\.(text|rodata|data|init_array)")
WANTED = re.compile(r"^nacre::(?:inline )?((?:reference|cortex_m)::(?:functions|ready)::k\w+)\(")


def read_archive(prefix, archive, sections, defined, calls):
    """sections: key -> bytes; defined: symbol -> key; calls: key -> symbols or keys."""
    text = subprocess.run([prefix + "readelf", "-W", "-S", "-s", "-r", archive], capture_output=True, text=True).stdout
    member, own, names = None, {}, {}
    local, pending = {}, []
    at = None

    def finish():
        for key, name in pending:
            calls[key].add(local.get(name, name))

    for line in text.splitlines():
        if line.startswith("File: "):
            finish()
            member, own, local, pending, at = line, {}, {}, [], None
        elif m := re.match(r"\s*\[\s*(\d+)\] (\S+)\s+PROGBITS\s+\w+ \w+ (\w+) \w+\s+(\w*)\s+\d+\s+\d+\s+(\d+)", line):
            number, name, size, flags, align = int(m[1]), m[2], int(m[3], 16), m[4], int(m[5])
            if "A" in flags and KEPT.match(name):
                key = (member, number)
                own[number], names[name] = key, key
                sections[key] = (size + align - 1) // align * align
                local[name] = key
        elif m := re.match(r"Relocation section '\.rela?(\S+)'", line):
            at = names.get(m[1])
        elif m := re.match(r"[0-9a-f]{8}\s+[0-9a-f]{8} R_\w+\s+[0-9a-f]{8}\s+(\S+)", line):
            if at is not None:
                pending.append((at, m[1]))
        elif m := re.match(r"\s*\d+: (\w+)\s+\w+\s+(\w+)\s+(\w+)\s+\w+\s+(\d+) (\S+)", line):
            kind, bind, section, name = m[2], m[3], int(m[4]), m[5]
            key = own.get(section)
            if key is None:
                continue
            if bind == "LOCAL":
                local.setdefault(name, key)
            else:
                defined.setdefault(name, key)
    finish()


def closure(start, sections, defined, calls):
    seen, stack = set(), [start]
    while stack:
        key = stack.pop()
        if key in seen:
            continue
        seen.add(key)
        for name in calls[key]:
            target = name if isinstance(name, tuple) else defined.get(name)
            if target is not None and target in sections:
                stack.append(target)
    return seen


def library_path(prefix, flags, name):
    return subprocess.run([prefix + "gcc", *flags, "-print-file-name=" + name], capture_output=True, text=True).stdout.strip()


def machine_rows(prefix, folder):
    sections, defined, calls = {}, {}, collections.defaultdict(set)
    flags = []
    for line in open(folder + "/build.ninja"):
        if line.strip().startswith("ARGS = "):
            flags = [f for f in line.split() if f.startswith("-m")]
            break
    for archive in [folder + "/engine/libnacre.a", folder + "/ports/cortex_m/libnacre_cortex_m.a",
                    library_path(prefix, flags, "libm.a"), library_path(prefix, flags, "libgcc.a")]:
        read_archive(prefix, archive, sections, defined, calls)
    plain = subprocess.run([prefix + "c++filt"], input="\n".join(defined), capture_output=True, text=True).stdout.split("\n")
    kernels = {}
    for symbol, text in zip(defined, plain):
        key = defined[symbol]
        if text.startswith("nacre::BoundCalls::run("):
            kernels["run"] = closure(key, sections, defined, calls)
        elif m := WANTED.match(text):
            if "::ready::" in m[1] and not calls[key]:
                continue  # it has no ready form: one that only says so
            kernels[m[1]] = closure(key, sections, defined, calls)
    for name in [name for name in kernels if name.replace("::functions::", "::ready::") in kernels and "::functions::" in name]:
        del kernels[name]
    used = collections.Counter(key for keys in kernels.values() for key in keys)
    # Parts that always come together are one.
    together = collections.defaultdict(list)
    users = collections.defaultdict(list)
    for name, keys in kernels.items():
        for key in sorted(keys, key=str):  # the same order in every run
            users[key].append(name)
    for key, names in users.items():
        if used[key] > 1:
            together[tuple(sorted(names))].append(key)
    shared = list(together)
    number = {key: i for i, names in enumerate(shared) for key in together[names]}
    rows = []
    for name in sorted(kernels):
        keys = kernels[name]
        own = sum(sections[key] for key in keys if key not in number)
        rows.append((name, own, sorted({number[key] for key in keys if key in number})))
    return rows, [sum(sections[key] for key in together[names]) for names in shared]


def wrapped(items):
    line, lines = "   ", []
    for item in items:
        if len(line) + len(item) > 118:
            lines.append(line)
            line = "   "
        line += " " + item
    return "\n".join(lines + [line])


def main():
    prefix, folder = "arm-none-eabi-", sys.argv[1]
    compiler = subprocess.run([prefix + "g++", "-dumpfullversion"], capture_output=True, text=True).stdout.strip()
    rows, parts = machine_rows(prefix, folder)
    print(f"// Written by ports/firmware/kernel_text.py; {prefix}g++ {compiler}, -Os.")
    print("constexpr uint16_t kParts[] = {  // bytes that more than one kernel links\n" + wrapped([f"{p}," for p in parts]) + "\n};")
    print("constexpr KernelText kKernels[] = {  // bytes of its own, and which of kParts")
    for name, own, ids in rows:
        text = f'{{"{name}", {own}, "{" ".join(map(str, ids))}"}},'
        if len(text) <= 116:
            print("    " + text)
        else:
            head, tail = text.split(', "', 1)
            print(f'    {head},\n     "{tail}')
    print("};")


main()
