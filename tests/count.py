"""Lists the tests of a build, or tells what came of those that `meson test` ran.

    count.py --list BUILD                     their names, one a line
    count.py --failed TESTLOG.json            the names of those that failed
    count.py BUILD TESTLOG.json LOGS COUNT    one line per folder, then failures, the claims, and the closing line

A test that failed beside others and passed alone, by TESTLOG-again.json, counts as passed and is named.
A GoogleTest program counts each of its tests; any other is one test, skipped with code 77. LOGS gets all outputs.
"""
import collections
import json
import os
import re
import subprocess
import sys

PATTERNS = [
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"^\[  PASSED  \] (\d+) test",
        r"^\[  FAILED  \] (\d+) test.*, listed below:",
        r"^\[  SKIPPED \] (\d+) test.*, listed below:",
    )
]
WRONG = re.compile(r"FAILED|Failure|ERROR|error|NOT SHOWN")


def outcome(text, code):
    """How many tests of a program passed, failed and were skipped, by its output and exit code."""
    if re.search(r"^\[==========\] .* ran\.", text, re.MULTILINE):
        found = [pattern.findall(text) for pattern in PATTERNS]
        passed, failed, skipped = (int(numbers[-1]) if numbers else 0 for numbers in found)
        return passed, failed or int(code != 0), skipped
    return int(code == 0), int(code not in (0, 77)), int(code == 77)


def read(path):
    """The tests of a log, with their names, outputs and codes, in the order in which they began."""
    tests = []
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            tests = [json.loads(line) for line in file]
    for test in tests:
        test["name"] = test["name"].split(" / ")[-1].split(":")[-1]
        test["text"] = test.get("stdout", "") + test.get("stderr", "")
        # A program that a signal or the time limit ended has no code of its own.
        test["code"] = test["returncode"] if test["result"] not in ("TIMEOUT", "INTERRUPT") else 124
    return sorted(tests, key=lambda test: test["starttime"])


def main():
    if sys.argv[1] == "--failed":
        print("\n".join(test["name"] for test in read(sys.argv[2]) if outcome(test["text"], test["code"])[1]))
        return 0
    if sys.argv[1] == "--list":
        said = subprocess.run(["meson", "introspect", "--tests", sys.argv[2]], capture_output=True, text=True, check=True)
        print("\n".join(test["name"] for test in json.loads(said.stdout)))
        return 0
    build, path, logs, count = sys.argv[1:]
    os.makedirs(logs, exist_ok=True)
    folders, claims, bad, times = collections.defaultdict(lambda: [0, 0, 0, 0.0]), [], [], []
    tests = read(path)
    alone = {test["name"]: test for test in read(path.removesuffix(".json") + "-again.json")}
    for first in tests:
        name, test = first["name"], alone.get(first["name"], first)
        text, code = test["text"], test["code"]
        log = os.path.join(logs, name.replace("/", "-") + ".log")
        with open(log, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
        row = folders[name.split("/")[0]]
        of_test = outcome(text, code)
        for i in range(3):
            row[i] += of_test[i]
        row[3] += test["duration"]
        times.append((test["duration"], name))
        claims += [line for line in text.splitlines() if line.startswith("CLAIM ")]
        if of_test[1] or test is not first:
            bad.append((log, first["text"]))
    with open(os.path.join(build, "seconds.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{seconds:.0f} {name}\n" for seconds, name in sorted(times, reverse=True))
    print(f"{'folder':<12} {'passed':>8} {'failed':>8} {'skipped':>8} {'seconds':>8}")
    for folder, row in folders.items():
        print(f"{folder:<12} {row[0]:8} {row[1]:8} {row[2]:8} {row[3]:8.0f}")
    for name, test in alone.items():
        if not outcome(test["text"], test["code"])[1]:
            print(f"UNSTEADY {name}: it failed beside others, as below, and passed alone")
    for log, text in bad:
        lines = text.splitlines()
        print(f"\n== {os.path.relpath(log)}")
        wrong = [f"{number}:{line}" for number, line in enumerate(lines, 1) if WRONG.search(line)]
        print("\n".join(wrong[:20] + lines[-15:]))
    print("\n" + "\n".join(claims) if claims else "")
    passed, failed, skipped = (sum(row[i] for row in folders.values()) for i in range(3))
    missing = int(count) - len(tests)
    if missing:
        print(f"{missing} of {count} tests did not run")
    print(f"{passed} passed, {failed + missing} failed, {skipped} skipped")
    return int(failed + missing > 0)


sys.exit(main())
