#!/usr/bin/env python3
"""Installs headers of include/nacre and what they include.

    install_headers.py INCLUDEDIR HEADER...      Meson runs it: MESON_INSTALL_DESTDIR_PREFIX says where

INCLUDEDIR/nacre/x86.h includes "nacre/..." alone, so that no other project's header is taken in its place. The folder
INCLUDEDIR/nacre/compat has the names that programs included before, engine/nacre.h among them.
"""
import os
import re
import sys

root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INCLUDE = re.compile(r'#include "((?:engine|ports)/[^"]+)"')


def text_of(path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def write(path, text):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def main():
    prefix = os.environ["MESON_INSTALL_DESTDIR_PREFIX"]
    to = os.path.join(prefix, sys.argv[1], "nacre")
    public = sorted(set(sys.argv[2:]))
    named, seen = set(), set()
    for header in public:
        text = text_of(f"include/nacre/{header}")
        write(f"{to}/{header}", INCLUDE.sub(r'#include "nacre/\1"', text))
        for name in INCLUDE.findall(text):
            write(f"{to}/compat/{name}", f"/* The name is <nacre/{header}>. */\n#include <nacre/{header}>\n")
            named.add(name)
    waiting = sorted(named)
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        text = text_of(name)
        write(f"{to}/{name}", INCLUDE.sub(r'#include "nacre/\1"', text))
        if name.endswith(".h") and name not in named:
            write(f"{to}/compat/{name}", f"#include <nacre/{name}>\n")
        waiting += INCLUDE.findall(text)
    if not os.environ.get("MESON_INSTALL_QUIET"):
        print(f"Installing {len(public)} headers, and {len(seen)} that they include, to {to}")


main()
