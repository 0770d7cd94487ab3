#!/usr/bin/env python3
"""Checks that no class of engine, ports, tools, firmware and python declares over 30 methods, but those in OVER.

    tests/class_methods.py [--all]      --all prints the count of every class

Counts declarations as they are written: a method with two signatures counts twice, an inherited one not at all.
"""
import os
import re
import sys

MOST = 30
OVER = {
    # These have one method per vector operation that kernels use.
    "ports/x86/vec_avx2.h:Avx2": "vectors",
    "ports/x86/vec_avx512.h:Avx512": "vectors",
    "ports/arm/vec_neon.h:Neon": "vectors",
    "engine/simd/vec.h:Lanes": "vectors",
    "engine/kernels/fast/real_maps.h:RealFunctions": "vectors",
    # These hold a value, and have one method for each kind of value.
    "tools/base/json.h:Json": "value",
    # These are the public API of the library: everything that an application may ask of one object.
    "engine/model/model.h:Model": "door",
    "engine/train/trainer.h:Trainer": "door",
    # These have one check for each table of the format.
    "engine/model/verify.h:Verifier": "checks",
    # These are not yet split by subject.
    "engine/run/places.h:Places": "to be split",
    "ports/cuda/cuda_port.h:Device": "to be split",
    "tools/importers/keras/importer.h:Call": "to be split",
    "tools/importers/keras/importer.h:Importer": "to be split",
    "tools/passes/policy/apply_policy.h:PolicyPass": "to be split",
    "tools/tuner/tuner.h:Tuner": "to be split",
}
CLASS = re.compile(
    r"\b(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?(?:\[\[[^]]*\]\]\s*)?"
    r"([A-Za-z_][\w:]*(?:<[^{};]*?>)?)\s*(?:final\s*)?(?::[^{};]*)?\{"
)
NO_METHOD = re.compile(r"(using|friend|static_assert|template\s*<[^>]*>\s*(struct|class)|struct|class|enum|typedef)\b")


def without_text(source):
    """The source without comments, literals and lines of the preprocessor."""
    source = re.sub(r"//[^\n]*|/\*.*?\*/", "", source, flags=re.DOTALL)
    source = re.sub(r'R"(\w*)\(.*?\)\1"', '""', source, flags=re.DOTALL)
    source = re.sub(r'"(\\.|[^"\\\n])*"|\'(\\.|[^\'\\\n])\'', "0", source)
    return re.sub(r"^ *#(.*\\\n)*.*$", "", source, flags=re.MULTILINE)


def body(source, at):
    """The text of a class behind its brace, with {} in place of what stands in braces."""
    depth, text = 1, []
    while at < len(source) and depth > 0:
        c = source[at]
        if c == "{":
            if depth == 1:
                text.append("{}")
            depth += 1
        elif c == "}":
            depth -= 1
        elif depth == 1:
            text.append(c)
        at += 1
    return "".join(text)


def methods(text):
    count = 0
    for declared in re.split(r";|\{\}", re.sub(r"\b(public|private|protected)\s*:", "", text)):
        declared = declared.strip()
        if declared and not NO_METHOD.match(declared):
            named, _, value = declared.partition("=")
            if "(" not in named and value:
                continue  # a member with a value
            count += re.search(r"[\w~>\]]\s*\(|operator\S*\s*\(", declared) is not None
    return count


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    folders = ("engine", "ports", "tools", "firmware", "python")
    listed = [os.path.join(at, name) for folder in folders for at, _, names in os.walk(folder) for name in names]
    counts = {}
    for path in listed:
        if not path.endswith((".h", ".cc")):
            continue
        with open(path, encoding="utf-8") as file:
            source = without_text(file.read())
        for found in CLASS.finditer(source):
            counts[f"{path}:{found[1]}"] = methods(body(source, found.end()))
    over = {name: count for name, count in counts.items() if count > MOST}
    if "--all" in sys.argv:
        for name, count in sorted(counts.items(), key=lambda item: -item[1]):
            print(count, name)
    for name in sorted(over.keys() - OVER.keys()):
        print(f"{name} declares {over[name]} methods, over {MOST}: split it by subject, or list it with a reason")
    for name in sorted(OVER.keys() - over.keys()):
        print(f"{name} declares at most {MOST} methods: tests/class_methods.py need not list it")
    if over.keys() != OVER.keys():
        return 1
    print(f"{len(counts)} classes, {len(over)} with over {MOST} methods, all listed with a reason")
    return 0


sys.exit(main())
