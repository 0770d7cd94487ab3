"""The comments of a C or C++ header: where each stands, and what it says.

    header_comments.py HEADER      prints the header for Doxygen, as its INPUT_FILTER

Headers have plain comments, which Doxygen does not read, and their text holds signs that are commands to Doxygen. So it
gets the number of each comment alone, in a comment of its own form, `/** B7 */` before a declaration and `/**< A7 */`
behind one. Doxygen says to which declaration a number belongs; api.py asks comments_of() for the text. Lines stay
where they are.
"""

from __future__ import annotations

import dataclasses
import re
import sys

_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z])\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
_TITLE = re.compile(r"-{4} (.*?) -{4}$")


@dataclasses.dataclass
class Comment:
    """`kind`: head (of the file), section (of what follows it), before or behind a declaration, or none of these."""

    begin: int  # place in the text, and the end
    end: int
    first: int  # line, from 0
    last: int
    column: int
    alone: bool  # nothing stands before it on its line
    lines: list[str]
    kind: str = ""
    title: str = ""


def comments_of(text: str) -> list[Comment]:
    lines = text.split("\n")
    found: list[Comment] = []
    for token in _TOKEN.finditer(text):
        if token[0][0] in "\"'":
            continue
        first = text.count("\n", 0, token.start())
        column = token.start() - text.rfind("\n", 0, token.start()) - 1
        new = Comment(token.start(), token.end(), first, first + token[0].count("\n"), column,
                      not lines[first][:column].strip(), _stripped(token[0], column))
        before = found[-1] if found else None
        if before and new.alone and token[0].startswith("//") and text.startswith("//", before.begin) \
                and (before.last, before.column) == (first - 1, column):  # fmt: skip
            before.end, before.last = new.end, new.last
            before.lines += new.lines
        else:
            found.append(new)
    for comment in found:
        comment.kind = _kind(comment, lines, comment is found[0])
        if title := _TITLE.match(comment.lines[0]):
            comment.kind, comment.title = "section", title[1]
            comment.lines = comment.lines[1:]
    return found


def _stripped(token: str, column: int) -> list[str]:
    """Returns the lines of a comment without its signs."""
    if token.startswith("//"):
        return [re.sub(r"^// ?", "", token).rstrip()]
    lines = token[2:-2].rstrip().split("\n")
    starred = all(line.lstrip().startswith("*") or not line.strip() for line in lines[1:])
    for i, line in enumerate(lines[1:], 1):
        indent = min(column + 3, len(line) - len(line.lstrip()))
        lines[i] = re.sub(r"^\s*\* ?", "", line) if starred else line[indent:]
    lines[0] = lines[0].removeprefix(" ")
    while len(lines) > 1 and not lines[-1].strip():
        lines.pop()
    return [line.rstrip() for line in lines]


def _kind(comment: Comment, lines: list[str], is_first: bool) -> str:
    code = lines[comment.first][: comment.column].strip()
    if not comment.alone:
        return "" if code.startswith(("}", "#")) and not re.match(r"}.+|#define", code) else "behind"
    if is_first:
        return "head"
    following = lines[comment.last + 1].strip() if comment.last + 1 < len(lines) else ""
    return "section" if not following or re.match(r"}|#(?!define|if)", following) else "before"


def _filtered(text: str) -> str:
    pieces, at = [], 0
    for number, comment in enumerate(comments_of(text)):
        code, at = text[at : comment.begin], comment.end
        form = f"/** B{number} */" if comment.kind == "before" else ""
        if comment.kind == "behind" and code.rstrip().endswith(("{", "}", "};")):  # the declaration begins on this line
            begin = code.rfind("\n") + 1
            code = f"{code[:begin]}/** A{number} */ {code[begin:]}"
        elif comment.kind == "behind":
            form = f"/**< A{number} */"
        pieces += [code, form, "\n" * (comment.last - comment.first)]
    return "".join([*pieces, text[at:]]).replace("::inline NACRE_ISA", "")


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as header:
        sys.stdout.write(_filtered(header.read()))
