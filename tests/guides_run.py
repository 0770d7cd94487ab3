"""Runs the pages of docs/guides and docs/start as a reader would, and compares what the commands print with the page.

    guides_run.py [--checkout DIR] [--keep DIR] [--update] GUIDE.md...

For each page an empty folder is made. The page is read from top to bottom:

  - A fenced block with a language, behind a paragraph that says "save as `name`", is written to that file.
  - A fenced block with the info string `console` holds commands, `$ command`. A command goes on in the next line where
    it ends in a backslash. The lines behind it are its output: standard output and standard error in one.

Commands run in order, in one bash, in that folder. NACRE is the checkout. The tool is on the PATH: the folder of
NACRE_TOOL, or build/test/tools of the checkout. A command whose exit code is not zero counts as one that differs,
unless it is the last of a block whose last line is `[exit code N]`.

A line `...` in the page stands for any lines. These are masked on both sides, because they depend on the machine:

  - numbers before us, ms, s and GMAC/s, and behind min, median, mean, p90, p99, max and deviation
  - numbers, and percentages of time, under the table headings us, us/sample, ms/step, share, GMAC/s and of roof
  - names of the fast kernels of x86 and ARM (avx2, neon, ...); `reference` stays
  - runs of blanks and of dashes, which are as wide as the numbers beside them

The checkout's path in an output reads $NACRE. $MODELS is the folder models of NACRE_SHARED, if that is set and MODELS
is not. A comment in the line before a block changes how it runs:

    <!-- needs: qemu-system-arm python:keras -->    the block runs only where these are: programs on the PATH, and
                                                    modules that a python imports: of NACRE_GUIDES_PYTHON (paths of
                                                    interpreters, with colons between them), build/python-venv, the PATH
    <!-- the rest needs: arm-none-eabi-gcc -->      so do all blocks behind it
    <!-- numbers differ -->                         every number is masked: a training that other libraries round

Prints one line per page, `guides_run: PAGE: 14 commands, 0 differ`, with the number that were left out for their needs,
and a diff of each output that differs. The exit code is 1 where one does. --update writes what the commands printed
into the page, in place of the outputs that differ; an output that was shortened is then whole again.
"""
import argparse
import difflib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 900  # the most that one command may take
FENCE = re.compile(r"^```(\S*)\s*$")
SAVE = re.compile(r"save\s+as\s+`([^`]+)`", re.IGNORECASE)
DIRECTIVE = re.compile(r"^<!-- (needs|the rest needs|numbers differ)(?:: (.*?))? -->\s*$")
EXIT_CODE = re.compile(r"^\[exit code (\d+)\]$")
TIMED_HEADING = re.compile(r"(?<=  )(?:us/sample|ms/step|us|share|GMAC/s|of roof)(?=  |$)")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
BEFORE_UNIT = re.compile(NUMBER.pattern + r"(?= (?:us|ms|s|GMAC/s)(?![\w/]))")
BEHIND_WORD = re.compile(r"\b(min|median|mean|p90|p99|max|deviation) " + NUMBER.pattern)
FAST_KERNELS = re.compile(r"\b(?:portable|avx2_vnni|avx2|avx512_vnni|avx512_bf16|avx512|amx|armv7|neon|dotprod|i8mm)\b")


class Command:
    def __init__(self, text, first):
        self.text = text
        self.first = self.last = first  # lines of the page that hold its output: [first, last)
        self.output = []
        self.code = 0


class Block:
    """A file to save, or commands to run."""

    def __init__(self, directive):
        self.needs = directive.get("needs", "").split()
        self.rest_needs = directive.get("the rest needs", "").split()
        self.numbers_differ = "numbers differ" in directive
        self.file, self.text, self.commands = None, "", []


def commands_of(lines, start, end, page):
    """The commands of the lines [start, end) of a console block."""
    commands, at = [], start
    while at < end:
        line = lines[at]
        code = EXIT_CODE.match(line)
        if line.startswith("$ "):
            text = line[2:]
            while text.endswith("\\") and at + 1 < end:
                at += 1
                text += "\n" + lines[at]
            commands.append(Command(text, at + 1))
        elif not commands:
            sys.exit(f"guides_run: {page}, line {at + 1}: an output before the first command of its block")
        elif code and at == end - 1:
            commands[-1].code = int(code[1])
        else:
            commands[-1].output.append(line)
            commands[-1].last = at + 1
        at += 1
    return commands


def blocks_of(lines, page):
    blocks, paragraph, directive, at = [], "", {}, 0
    while at < len(lines):
        fence, said = FENCE.match(lines[at]), DIRECTIVE.match(lines[at])
        if said:
            directive[said[1]] = said[2] or ""
        elif fence:
            end = next((n for n in range(at + 1, len(lines)) if lines[n].startswith("```")), None)
            if end is None:
                sys.exit(f"guides_run: {page}, line {at + 1}: a block without an end")
            block, name = Block(directive), SAVE.findall(paragraph)
            if fence[1] == "console":
                block.commands = commands_of(lines, at + 1, end, page)
            elif fence[1] and name:
                block.file, block.text = name[-1], "\n".join(lines[at + 1 : end]) + "\n"
            blocks.append(block)
            paragraph, directive, at = "", {}, end
        elif lines[at].strip():
            paragraph = (paragraph if at and lines[at - 1].strip() else "") + " " + lines[at]
        at += 1
    return blocks


def masked(lines, numbers_differ=False):
    """The lines without what depends on the machine."""
    result, columns = [], set()
    for line in lines:
        headings = {found.end() for found in TIMED_HEADING.finditer(line)}
        if headings or not line.strip():
            columns = headings
        elif columns:  # right-aligned: a number, with its % where it has one, ends where its heading does
            line = re.sub(
                NUMBER.pattern + r"(?: %)?", lambda found: "#" if found.end() in columns else found[0], line
            )
        line = BEFORE_UNIT.sub("#", BEHIND_WORD.sub(r"\1 #", line))
        line = FAST_KERNELS.sub("KERNELS", line)
        if numbers_differ:
            line = re.sub(r"-?" + NUMBER.pattern, "#", line)
        result.append(re.sub(r"-{4,}", "----", re.sub(r"\s{2,}", " ", line)).strip())
    return result


def same(expected, output):
    """Whether the output is what the page says, where `...` are any lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in output)) is not None


class Shell:
    """One bash, which keeps variables and its folder from command to command."""

    def __init__(self, folder, environment):
        self.mark = f"__guides_run_{os.getpid()}__"
        self.process = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=folder, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
        )  # fmt: skip

    def run(self, command):
        """The lines that it prints, and its exit code; None where it ended the shell."""
        script = f"{{ {command}\n}} </dev/null\nprintf '\\n{self.mark} %d\\n' $?\n"
        signal.alarm(SECONDS)
        try:
            self.process.stdin.write(script)
            self.process.stdin.flush()
            lines = []
            for line in self.process.stdout:
                if line.startswith(self.mark):
                    if lines and lines[-1] == "":
                        lines.pop()  # the line break before the mark
                    return lines, int(line.split()[1])
                lines.append(line.rstrip("\n").rstrip())
            return lines, None
        except TimeoutError:
            return [f"guides_run: not done after {SECONDS} s"], None
        finally:
            signal.alarm(0)

    def close(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # the shell's process group: also its background jobs
        except ProcessLookupError:
            pass
        self.process.wait()


def python_with(modules, environment, checkout):
    """The interpreter that has all these modules, or None."""
    named = environment.get("NACRE_GUIDES_PYTHON", "").split(":")
    found = [shutil.which(name, path=environment["PATH"]) for name in ("python", "python3")]
    lacks_one = f"import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in {modules!r}))"
    for python in [*named, str(checkout / "build/python-venv/bin/python"), *found]:
        if python and os.access(python, os.X_OK):
            if subprocess.run([python, "-c", lacks_one], capture_output=True).returncode == 0:
                return python
    return None


def lacks(needs, environment, checkout, links):
    """The first need that is not there, or None. An interpreter that a block needs becomes `python` in links."""
    modules = [need[len("python:") :] for need in needs if need.startswith("python:")]
    if modules:
        python = python_with(modules, environment, checkout)
        if python is None:
            return "a python with " + ", ".join(modules)
        wrapper = links / "python"
        wrapper.write_text(f'#!/bin/sh\nexec "{python}" "$@"\n')
        wrapper.chmod(0o755)
    programs = [need for need in needs if not need.startswith("python:")]
    return next((name for name in programs if shutil.which(name, path=environment["PATH"]) is None), None)


def run_page(page, checkout, keep, update):
    """Whether nothing differs."""
    lines = Path(page).read_text().split("\n")
    blocks = blocks_of(lines, page)
    folder = Path(keep) / Path(page).stem if keep else Path(tempfile.mkdtemp(prefix="nacre_guide_"))
    folder.mkdir(parents=True, exist_ok=bool(not keep))
    links = Path(tempfile.mkdtemp(prefix="nacre_guide_bin_"))
    tool = Path(os.environ.get("NACRE_TOOL") or checkout / "build/test/tools/nacre").absolute()
    if not os.access(tool, os.X_OK):
        sys.exit(f"guides_run: {tool} is missing: build it, or name it in NACRE_TOOL")
    environment = {**os.environ, "NACRE": str(checkout), "LC_ALL": "C.UTF-8"}
    if os.environ.get("NACRE_SHARED"):
        environment.setdefault("MODELS", f"{os.environ['NACRE_SHARED']}/models")
    environment["PATH"] = f"{links}:{tool.parent}:{checkout / 'build/test/tools'}:{os.environ['PATH']}"
    shell = Shell(folder, environment)
    ran = left_out = 0
    missing, differences, replaced = None, [], []
    for block in blocks:
        missing = missing or lacks(block.rest_needs, environment, checkout, links)
        lacking = missing or lacks(block.needs, environment, checkout, links)
        if lacking:
            left_out += len(block.commands)
            if block.commands:
                print(f"guides_run: {page}: not here: {lacking}; {len(block.commands)} commands left out")
            continue
        if block.file:
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.file).write_text(block.text)
        for command in block.commands:
            if shell is None:
                break
            output, code = shell.run(command.text)
            output = [line.replace(str(checkout), "$NACRE") for line in output]
            ran += 1
            expected, real = (masked(text, block.numbers_differ) for text in (command.output, output))
            if not same(expected, real):
                name = f"{page}, line {command.first}"
                diff = difflib.unified_diff(expected, real, name, "what it printed", lineterm="", n=1)
                differences.append(f"$ {command.text}\n" + "\n".join(diff))
                replaced.append((command.first, command.last, output))
            elif code != command.code:
                differences.append(f"$ {command.text}\nexit code {code}, the page has {command.code}")
            if code is None:
                differences.append(f"$ {command.text}\nthe shell has ended: what is behind it was not run")
                shell.close()
                shell = None
    if shell is not None:
        shell.close()
    shutil.rmtree(links)
    if not keep:
        shutil.rmtree(folder)
    for difference in differences:
        print(difference)
    told = f", {left_out} left out" if left_out else ""
    print(f"guides_run: {page}: {ran} commands, {len(differences)} differ{told}", flush=True)
    if update and replaced:
        for first, last, output in reversed(replaced):
            lines[first:last] = output
        Path(page).write_text("\n".join(lines))
    return not differences


def give_up(*_):
    raise TimeoutError


def main():
    description, _, rest = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        description=description, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pages", nargs="+", metavar="GUIDE.md")
    parser.add_argument("--checkout", type=Path, default=Path(__file__).absolute().parent.parent,
                        help="what NACRE is [the one of this file]")  # fmt: skip
    parser.add_argument("--keep", metavar="DIR", help="run each page in a new folder of DIR, which stays")
    parser.add_argument("--update", action="store_true", help="write the outputs that differ into the page")
    options = parser.parse_args()
    signal.signal(signal.SIGALRM, give_up)
    results = [run_page(page, options.checkout.absolute(), options.keep, options.update) for page in options.pages]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
