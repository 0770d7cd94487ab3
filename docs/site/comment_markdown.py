"""Comments of the headers as Markdown.

Lines that are indented are a block: code, a formula, or a table. Other lines are paragraphs, in which code spans stay,
names become code spans, and signs of Markdown lose their meaning.
"""

from __future__ import annotations

import re

_CODE = re.compile(
    r"<[\w/]+\.h>"
    r"|(?<![\w/])[\w/]*\w\.(?:h|cc|md|fbs|sh|py|inc)\b"  # files
    r"|(?<!\w)--[a-z][\w-]*|-D\w+(?:=\w+)?"  # options
    r"|\b(?:\w+::)+~?\w+(?:\(\))?"
    r"|\b\w+(?:->|\.)\w+\(\w*\)"
    r"|\b\w+->\w+"
    r"|\b\w+\[\w*\]"
    r"|\bsizeof\(\w+\)"
    r"|\b[a-z]\w*\.[a-z]\w\w+\b"
    r"|(?<!\w)_[a-z]\w+"
    r"|\b[A-Za-z]\w*_\w*(?:\*|\(\w*\))?"
    r"|\b[a-z]\w*\(\)"
    r"|\bk[A-Z]\w+"
)


def blocks(lines: list[str], language: str) -> list[str]:
    """Returns the lines of Markdown, with an empty one at the end of each block."""
    found: list[str] = []
    paragraph: list[str] = []
    block: list[str] = []
    for line in [*lines, ""]:
        if line.startswith("  ") or block and not line:
            found += _paragraph(paragraph)
            block.append(line)
        elif line:
            found += _block(block, language)
            paragraph.append(line)
        else:
            found += _paragraph(paragraph)
    return found + _block(block, language)


def _paragraph(lines: list[str]) -> list[str]:
    text = _inline(" ".join(lines))
    lines.clear()
    return [text, ""] if text else []


def _block(lines: list[str], language: str) -> list[str]:
    while lines and not lines[-1]:
        lines.pop()
    if not lines:
        return []
    indent = min(len(line) - len(line.lstrip()) for line in lines if line)
    is_code = re.search(r"^ *#include|[;{]\s*(//.*|/\*.*)?$", lines[0]) is not None
    made = [f"```{language if is_code else 'text'}", *(line[indent:] for line in lines), "```", ""]
    lines.clear()
    return made


def cell(lines: list[str]) -> str:
    """A comment in one line, for a table."""
    return _inline(" ".join(line.strip() for line in lines if line)).replace("|", "\\|")


def summary(lines: list[str]) -> str:
    """The first sentence of a comment, for a table."""
    text = " ".join(line.strip() for line in lines[: lines.index("") if "" in lines else None])
    text = re.sub(r"^Since version \d+\. ", "", text)
    return _inline(re.split(r"(?<=\.)\s+(?=[A-Z`]|k[A-Z]|\w+\()|(?<=:)\s*$", text, maxsplit=1)[0]).replace("|", "\\|")


def _inline(text: str) -> str:
    parts = []
    for i, part in enumerate(re.split(r"(`[^`]+`)", text)):
        if i % 2 == 1:
            parts.append(part)
            continue
        at = 0
        for code in _CODE.finditer(part):
            parts += [_plain(part[at : code.start()]), f"`{code[0]}`"]
            at = code.end()
        parts.append(_plain(part[at:]))
    return "".join(parts)


def _plain(text: str) -> str:
    return re.sub(r"([\\*_\[\]{}#])", r"\\\1", text).replace("&", "&amp;").replace("<", "&lt;")
