#!/usr/bin/env python3
"""Counts the bytes of flash that each kernel of a static program links, for every microcontroller target. It reads the
library's objects: a kernel's function and all that it calls, as a linker with --gc-sections keeps them.

  kernel_text.py [FOLDER] > tools/evaluate/kernel_text.inc
  kernel_text.py --check TARGET FOLDER      compares one column of the file with the library that FOLDER is a build of

The first form builds the library in FOLDER (build/kernel_text) for each target at -Os, in some ten minutes. It counts
sections of functions and of constants, those of libm and libgcc too. RISC-V's linker makes code shorter, so there the
sections have the length that they have when all of the library is linked. If a kernel has a ready form
(engine/kernels/ready.h), that form is counted, because static programs link it.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TARGETS = ["m0plus", "m3", "m4", "m7", "m33", "m55", "rv32imac", "rv32imafc"]  # in the order of kTargets in flash.cc
KEPT = re.compile(r"\.(text|s?rodata|s?data|init_array)")
SECTION = re.compile(r"\s*\[\s*(\d+)\] (\S+)\s+PROGBITS\s+\w+ \w+ (\w+) \w+\s+(\w*)\s+\d+\s+\d+\s+(\d+)")
WANTED = re.compile(r"^nacre::(?:inline )?((?:reference|cortex_m)::(?:functions|ready)::k\w+)\(")
LINK_ALL = """SECTIONS {
  .text 0x80000000 : { *(.text .text.*) }
  .rodata : { *(.rodata .rodata.* .srodata .srodata.*) }
  .data 0x80500000 : { *(.data .data.* .sdata .sdata.* .tdata* .tbss*) }
  .bss : { *(.bss .bss.* .sbss .sbss.* COMMON) }
}
"""


def said(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, **more).stdout


class Library:
    """The sections of archives, by (archive, member, number of the section)."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.sizes, self.names, self.calls = {}, {}, collections.defaultdict(set)
        self.defined, self.definers = {}, collections.defaultdict(list)  # symbol -> section, and all that have it

    def read(self, archive):
        member, own, numbers = None, {}, {}
        local, pending = {}, []
        at = None

        def finish():
            for key, name in pending:
                self.calls[key].add(local.get(name, name))

        for line in said(self.prefix + "readelf", "-W", "-S", "-s", "-r", archive).splitlines():
            if line.startswith("File: "):
                finish()
                member = re.split(r"[/(\[]", line.rstrip(")]"))[-1]
                own, numbers, local, pending, at = {}, {}, {}, [], None
            elif m := SECTION.match(line):
                number, name, size, flags, align = int(m[1]), m[2], int(m[3], 16), m[4], int(m[5])
                if "A" in flags and KEPT.match(name):
                    key = (archive, member, number)
                    own[number], numbers[name] = key, key
                    self.sizes[key] = (size + align - 1) // align * align
                    self.names[key] = (member, name)
                    local[name] = key
            elif m := re.match(r"Relocation section '\.rela?(\S+)'", line):
                at = numbers.get(m[1])
            elif m := re.match(r"[0-9a-f]{8}\s+[0-9a-f]{8} (R_\w+)\s+[0-9a-f]{8}\s+(\S+)", line):
                # The symbol of a PCREL_LO12 relocation is the label of its AUIPC instruction, not a callee: skip it.
                if at is not None and "PCREL_LO12" not in m[1]:
                    pending.append((at, m[2]))
            elif m := re.match(r"\s*\d+: (\w+)\s+\w+\s+(\w+)\s+(\w+)\s+\w+\s+(\d+) (\S+)", line):
                bind, section, name = m[3], int(m[4]), m[5]
                key = own.get(section)
                if key is None:
                    continue
                if bind == "LOCAL":
                    local.setdefault(name, key)
                else:
                    self.definers[name].append(key)
        finish()

    def resolve(self):
        """Chooses each symbol's section. Of several, as in libgcc, it takes the one that defines most symbols."""
        symbols = collections.Counter(key for keys in self.definers.values() for key in keys)
        self.defined = {name: max(keys, key=lambda key: symbols[key]) for name, keys in self.definers.items()}

    def closure(self, start):
        seen, stack = set(), [start]
        while stack:
            key = stack.pop()
            if key in seen:
                continue
            seen.add(key)
            for name in self.calls[key]:
                target = name if isinstance(name, tuple) else self.defined.get(name)
                if target is not None and target in self.sizes:
                    stack.append(target)
        return seen

    def shorten(self, archives, flags):
        """Replaces the sizes by those after the linker's relaxation, from its map."""
        with tempfile.TemporaryDirectory() as folder:
            script, listing = folder + "/all.ld", folder + "/map"
            with open(script, "w") as file:
                file.write(LINK_ALL)
            how = ["-nostdlib", "-T", script, "-Wl,--no-gc-sections", "-Wl,--unresolved-symbols=ignore-all"]
            subprocess.run([self.prefix + "g++", *flags, *how, "-Wl,--whole-archive", *archives[:2],
                            "-Wl,--no-whole-archive", *archives[2:], "-Wl,-Map=" + listing,
                            "-o", folder + "/all.elf"], capture_output=True, check=True)
            text = open(listing).read()
        linked = {}
        for m in re.finditer(r"^ (\.\S+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+)$", text, re.M):
            linked[re.split(r"[/(\[]", m[3].rstrip(")]"))[-1], m[1]] = int(m[2], 16)
        for key, name in self.names.items():
            self.sizes[key] = linked.get(name, self.sizes[key])


def target_kernels(target, folder):
    """Returns two dicts: kernel -> its sections, and section -> bytes."""
    settings = {}
    for path in ["m4.ini", target + ".ini"]:
        for line in open(HERE + "/toolchains/" + path):
            if m := re.match(r"(tools|core|gcc) = (['\[].*?)\s*(#.*)?$", line):
                settings[m[1]] = re.findall(r"'([^']*)'", m[2])
    prefix, flags = settings["tools"][0], settings["gcc"] + settings["core"]
    if not os.path.exists(folder + "/build.ninja"):
        overlay = ["--cross-file", f"firmware/toolchains/{target}.ini"]
        subprocess.run(["meson", "setup", folder, "--cross-file", "firmware/toolchains/m4.ini", *overlay,
                        "--buildtype=minsize", "-Dtools=false", "-Dfirmware=true", "-Dsentences=false"],
                       stdout=sys.stderr, check=True)
    archives = ["engine/libnacre.a", "ports/cortex_m/libnacre_cortex_m.a"]
    subprocess.run(["ninja", "-C", folder, *archives], stdout=sys.stderr, check=True)
    archives = [folder + "/" + archive for archive in archives]
    riscv = target.startswith("rv")
    lines = said(HERE + "/toolchains/gcc_folders.sh", prefix + "g++", *flags).split("\n")
    folders = [line[2:] for line in lines if line.startswith("-L")]
    for name in ["libc.a" if riscv else "libm.a", "libgcc.a"]:
        archives.append(next(folder + "/" + name for folder in folders if os.path.exists(folder + "/" + name)))
    library = Library(prefix)
    for archive in archives:
        library.read(archive)
    library.resolve()
    if riscv:
        library.shorten(archives, flags)
    plain = said(prefix + "c++filt", input="\n".join(library.defined)).split("\n")
    kernels = {}
    for symbol, text in zip(library.defined, plain):
        key = library.defined[symbol]
        if text.startswith("nacre::BoundCalls::run("):
            kernels["run"] = library.closure(key)
        elif m := WANTED.match(text):
            if "::ready::" in m[1] and not library.calls[key]:
                continue  # it has no ready form: one that only says so
            kernels[m[1]] = library.closure(key)
    for name in [name for name in kernels if "::functions::" in name]:
        if name.replace("::functions::", "::ready::") in kernels:
            del kernels[name]
    return kernels, library.sizes


def wrapped(items):
    line, lines = "   ", []
    for item in items:
        if len(line) + len(item) > 118:
            lines.append(line)
            line = "   "
        line += " " + item
    return "\n".join(lines + [line])


def ranges(numbers):
    """Returns ascending numbers as text: "1 4-6" for 1, 4, 5, 6."""
    parts = []
    for n in numbers:
        if parts and parts[-1][1] == n - 1:
            parts[-1][1] = n
        else:
            parts.append([n, n])
    return " ".join(str(a) if a == b else f"{a}-{b}" for a, b in parts)


def column(target):
    """Returns the bytes of each kernel that the file has for one target, as a dict."""
    with open(HERE + "/../tools/evaluate/kernel_text.inc") as file:
        parts_text, kernels_text = file.read().split("kKernels[] = {", 1)
    t = TARGETS.index(target)
    row = r"\{((?:\d+, ){%d}\d+)\}" % (len(TARGETS) - 1)
    parts = [int(numbers.split(", ")[t]) for numbers in re.findall(row, parts_text.split("kParts", 1)[1])]
    bytes_of = {}
    for name, own, lists in re.findall(r'\{"([\w:]+)", ' + row + r',((?:\s*"[^"]*")*)\}', kernels_text):
        bytes_of[name] = int(own.split(", ")[t])
        for first, last in re.findall(r"(\d+)(?:-(\d+))?", "".join(re.findall(r'"([^"]*)"', lists))):
            bytes_of[name] += sum(parts[int(first) : int(last or first) + 1])
    return bytes_of


def check(target, folder):
    """Compares the file's bytes for a target with the library and prints what differs. Returns the exit status."""
    said_bytes, (kernels, sizes) = column(target), target_kernels(target, folder)
    now = {name: sum(sizes[key] for key in keys) for name, keys in kernels.items()}
    differ = sorted(name for name in now.keys() | said_bytes.keys() if now.get(name) != said_bytes.get(name))
    for name in differ[:20]:
        print(f"{name}: {said_bytes.get(name, 'no')} bytes in kernel_text.inc, {now.get(name, 'no')} in the library")
    print(f"{len(now)} kernels for {target}, {len(differ)} with other bytes than in tools/evaluate/kernel_text.inc")
    return 1 if differ else 0


def main():
    if sys.argv[1:2] == ["--check"]:
        return check(*sys.argv[2:])
    folder = sys.argv[1] if len(sys.argv) > 1 else "build/kernel_text"
    own = collections.defaultdict(lambda: [0] * len(TARGETS))  # kernel -> bytes that it alone links
    shared = collections.defaultdict(lambda: [0] * len(TARGETS))  # several kernels -> bytes that just these link
    for t, target in enumerate(TARGETS):
        kernels, sizes = target_kernels(target, f"{folder}/{target}")
        users = collections.defaultdict(list)
        for name, keys in kernels.items():
            own[name]  # makes a row, even if the kernel shares all its sections
            for key in keys:
                users[key].append(name)
        for key, names in users.items():
            if len(names) == 1:
                own[names[0]][t] += sizes[key]
            elif sizes[key] > 0:
                shared[tuple(sorted(names))][t] += sizes[key]
    groups = sorted(shared)
    parts = collections.defaultdict(list)
    for number, names in enumerate(groups):
        for name in names:
            parts[name].append(number)
    compilers = ", ".join(f"{tools}g++ " + said(tools + "g++", "-dumpfullversion").strip()
                          for tools in ["arm-none-eabi-", "riscv64-unknown-elf-"])
    listed = lambda numbers: "{" + ", ".join(map(str, numbers)) + "}"
    print(f"// Written by firmware/kernel_text.py; {compilers}; -Os.\n// Columns: {', '.join(TARGETS)}.")
    print("constexpr uint16_t kParts[][std::size(kTargets)] = {  // bytes that more than one kernel links\n" +
          wrapped([listed(shared[names]) + "," for names in groups]) + "\n};")
    print("constexpr KernelText kKernels[] = {  // bytes of its own, and which of kParts")
    for name in sorted(own):
        head, tail = f'    {{"{name}", {listed(own[name])},', f'"{ranges(parts[name])}"}},'
        if len(head) + len(tail) < 118:
            print(head, tail)
        else:
            lines, left = [], tail
            while len(left) > 112:
                cut = left.rindex(" ", 0, 111) + 1
                lines.append(left[:cut] + '"')
                left = '"' + left[cut:]
            print(head + "".join("\n     " + line for line in lines + [left]))
    print("};")
    return 0


sys.exit(main())
