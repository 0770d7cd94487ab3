"""Counts the words that a stranger reads twice, in comments, documents, help and messages.

    plain_words.py CHECKOUT [--tool NACRE] [--list]
    plain_words.py CHECKOUT --draw COMMIT        60 comments, drawn by the commit's hash, for somebody to read

    openings    sentences of comments that begin with Of, What, Where, As, Those, Behind or "The same"
    away        "leave .. away", which means "leave out"
    wide        lines of documents over 160 columns
    long        sentences of documents, of help texts and of string literals with over 40 words

Prints one line of counts, and with --list each place. Exit code 1: a count is above its limit (LIMITS).
"""
import argparse
import hashlib
import re
import subprocess
import sys
from pathlib import Path

LIMITS = {"openings in public headers": 0, "openings": 0, "away": 0, "wide": 0, "long": 0}
MOST_COLUMNS, MOST_WORDS = 160, 40
OPENING = re.compile(r"(Of|What|Where|As|Those|Behind|The same)\b")
AWAY = re.compile(r"\b(leave|leaves|left|leaving)\b(\s+\w+){0,3}\s+away\b", re.IGNORECASE)
CODE = re.compile(r"\.(cc|h|inc|cu|cuh|c)$")
HASH = re.compile(r"(\.(py|sh|mk|txt)|meson\.build|meson_options\.txt)$")
# Copies of released headers, the history of releases, and this check, which names the habits.
LEFT_OUT = ("tests/abi/", "CHANGELOG.md", "tests/claims/plain_words")
SENTENCE_END = re.compile(r"(?<=[.?!])\s+|\n\n+|(?<=[.?!]\))\s+")
WORD = re.compile(r"[\"'(`*]*[A-Za-z][a-z'-]*[\"')`*.,;:?!]*|\d[\d,.]*")  # not names, options, paths, formulas
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def tracked(root):
    names = subprocess.run(["git", "-C", str(root), "ls-files"], capture_output=True, text=True).stdout.split("\n")
    if not any(names):  # a copy without its history
        names = [str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and "build" not in p.parts[:1]]
    return [n for n in names if n and not n.startswith(LEFT_OUT) and (root / n).is_file()]


def public_headers(root):
    """Returns include/nacre/*.h, and the engine's headers that these include, at any depth."""
    found, left = set(), [str(p.relative_to(root)) for p in (root / "include/nacre").glob("*.h")]
    while left:
        name = left.pop()
        if name in found or not (root / name).is_file():
            continue
        found.add(name)
        if name.startswith("include/"):
            left += re.findall(r'#include [<"]((?:engine|ports)/[^">]+\.h)[">]', (root / name).read_text())
    return found | {n for n in tracked(root) if re.fullmatch(r"engine/nacre_c\w*\.h", n)}


def comments(text, hashes):
    """Yields (first line, lines) of each comment. Adjoining whole-line comments are one."""
    block, first, number = [], 0, 0
    for number, line in enumerate(text.split("\n"), 1):
        whole = re.match(r"\s*#(?!!|include|define|if|el|end|pragma|error|undef)\s?(.*)" if hashes
                         else r"\s*(?://+|/\*+|\*(?!\w|/))\s?(.*)", line)
        if whole:
            if not block:
                first = number
            block.append(whole.group(1).removesuffix("*/").rstrip())
            continue
        if block:
            yield first, block
            block = []
        trailing = re.search(r"\S.*?  # (.*)$" if hashes else r"\S.*?\s(?://|/\*) (.*)$", line)
        if trailing:
            yield number, [trailing.group(1)]
    if block:
        yield first, block


def openings(block):
    """Yields the sentences of a comment with such an opening. Indented lines are formulas or tables, and are
    skipped."""
    for offset, line in enumerate(block):
        begins = offset == 0 or not block[offset - 1] or block[offset - 1].endswith((".", ":", "?"))
        starts = [line] if begins and not line.startswith("   ") else []
        starts += re.findall(r"[.?!]\s+([A-Z].*)", line)
        for start in starts:
            if OPENING.match(start.lstrip("-* ")):
                yield offset, start


def prose(text):
    """Returns Markdown without fenced blocks, tables, links' targets and code."""
    text = re.sub(r"^```.*?^```", "\n", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    lines = []
    for line in text.split("\n"):
        if line.startswith("    ") or line.startswith("|") or line.startswith("#"):
            lines.append("")
        elif re.match(r"\s*([-*]|\d+\.)\s", line):
            lines += ["", line]
        else:
            lines.append(line)
    return "\n".join(lines)


def long_sentences(text):
    for sentence in SENTENCE_END.split(text):
        words = [w for w in sentence.split() if WORD.fullmatch(w)]
        if len(words) > MOST_WORDS:
            yield len(words), " ".join(words)


def literals(text):
    """Yields string literals, except raw ones. Literals with only white space between them are one; lines are
    apart."""
    text = re.sub(r'R"(\w*)\(.*?\)\1"', lambda raw: "\n" * raw.group().count("\n"), text, flags=re.DOTALL)
    text = re.sub(r"//[^\n]*", "", text)
    for run in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', text):
        yield text.count("\n", 0, run.start()) + 1, "".join(LITERAL.findall(run.group())).replace("\\n", "\n\n")


def helps(tool):
    def said(*arguments):
        return subprocess.run([tool, *arguments, "--help"], capture_output=True, text=True).stdout

    for command in re.findall(r"^  ([a-z]+)  ", said(), flags=re.MULTILINE):
        text = said(command)
        yield f"nacre {command} --help", re.sub(r"\n {20,}", " ", text).replace("\n", "\n\n")


def draw(root, commit, count=60):
    """Returns places of comments with four words or more, in the order of a hash of the commit and the place."""
    places = []
    for name in tracked(root):
        if not (CODE.search(name) or HASH.search(name)):
            continue
        for first, block in comments((root / name).read_text(errors="replace"), bool(HASH.search(name))):
            if len(" ".join(block).split()) >= 4:
                places.append(f"{name}:{first}")
    return sorted(places, key=lambda place: hashlib.sha256(f"{commit} {place}".encode()).digest())[:count]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--tool", help="whose help texts are read too")
    parser.add_argument("--list", action="store_true", help="print each place")
    parser.add_argument("--draw", metavar="COMMIT", help="print 60 places of comments instead")
    options = parser.parse_args()
    root = options.checkout
    if options.draw:
        print("\n".join(draw(root, options.draw)))
        return 0
    found = {name: [] for name in LIMITS}
    public, files, blocks, sentences = public_headers(root), tracked(root), 0, 0
    for name in files:
        code, hashes, document = CODE.search(name), HASH.search(name), name.endswith(".md")
        if not (code or hashes or document):
            continue
        text = (root / name).read_text(errors="replace")
        for at, line in enumerate(text.split("\n"), 1):
            if AWAY.search(line):
                found["away"].append(f"{name}:{at}: {line.strip()}")
            if document and len(line) > MOST_COLUMNS:
                found["wide"].append(f"{name}:{at}: {len(line)} columns")
        if document:
            sentences += 1
            found["long"] += [f"{name}: {count} words: {s}" for count, s in long_sentences(prose(text))]
            continue
        kind = "openings in public headers" if name in public else "openings"
        for first, block in comments(text, bool(hashes)):
            blocks += 1
            found[kind] += [f"{name}:{first + offset}: {s}" for offset, s in openings(block)]
        if code and name.startswith(("engine/", "ports/", "tools/")):
            for at, literal in literals(text):
                found["long"] += [f"{name}:{at}: {count} words: {s}" for count, s in long_sentences(literal)]
    texts = list(helps(options.tool)) if options.tool else []
    for name, text in texts:
        found["long"] += [f"{name}: {count} words: {s}" for count, s in long_sentences(text)]
    if options.list:
        for kind, places in found.items():
            for place in places:
                print(f"{kind}: {place}")
    documents = sum(n.endswith(".md") for n in files)
    print(", ".join(f"{kind} {len(places)} (at most {LIMITS[kind]})" for kind, places in found.items())
          + f"; {blocks} comments, {documents} documents, {len(texts)} help texts")
    return int(any(len(places) > LIMITS[kind] for kind, places in found.items()))


if __name__ == "__main__":
    sys.exit(main())
