"""The reference of C and C++: a page for each public header, made of what Doxygen reads in it (declarations.py).

    api.py HEADER...      prints the pages, for a look at them

A page has the header's first comment, a table of its declarations, and a heading for each class, function, enum, type
and macro. The anchor of a heading is the whole name in small letters, `#nacre-program-bind`; an overload with a comment
of its own has `-2` behind it. Fields, values and constants stand in tables and have anchors too.
"""

from __future__ import annotations

import functools
import itertools
import re
import sys

from comment_markdown import blocks, cell, summary
from declarations import ROOT, Declaration, Header, read
from header_comments import Comment, comments_of

_INCLUDED = re.compile(r'#include "((?:engine|ports)/[^"]+)"')
_LABEL = re.compile(r"^( *)(public|private|protected):", re.MULTILINE)
_IN_TABLES = ("macro", "variable", "value")


class Page:
    """The page of one header."""

    def __init__(self, header: Header, include: str) -> None:
        self._header = header
        name = header.path.rsplit("/", 1)[-1]
        self._language = "c" if "_c" in name or name == "nacre_mpi.h" else "cpp"
        self._intro = header.comments[0].lines if header.comments else []
        self._lines: list[str] = []
        self._indexed: list[list[Declaration]] = []
        self._anchors = {"index", "declarations"}
        self._taken = {_slug(d.name) for d in header.declarations if d.kind not in _IN_TABLES}
        self._write_scope(header.declarations, None, 3)
        head = [f"# {name}", "", f"`#include <nacre/{include}>`, declared in {header.path}", ""]
        self.text = "\n".join([*head, *blocks(self._intro, self._language), *self._index(), *self._lines])

    def _index(self) -> list[str]:
        if not self._indexed:
            return []
        lines = ["## Index { #index data-search-exclude }", "", "| Name | Summary |", "| --- | --- |"]
        for group in self._indexed:
            links = ", ".join(map(_link, group[:3])) + (", …" if group[3:] else "")
            lines.append(f"| {links} | {self._summary(group)} |")
        return [*lines, "", *([] if self._lines[0].startswith("## ") else ["## Declarations { #declarations }", ""])]

    def _summary(self, group: list[Declaration]) -> str:
        said = [comment for declaration in group for comment in declaration.comments]
        if said:
            return summary(said[0].lines)
        intro = " ".join(self._intro)  # "Program: one compiled program of a model, .."
        is_subject = group[0].kind == "class" and re.match(group[0].name.rsplit("::", 1)[-1] + r"\b", intro)
        return summary(self._intro) if is_subject else ""

    def _anchor(self, name: str, kind: str = "") -> str:
        first = _slug(name) + (f"-{kind}" if kind in _IN_TABLES and _slug(name) in self._taken else "")
        anchor = next(a for i in itertools.count(1) if (a := first if i == 1 else f"{first}-{i}") not in self._anchors)
        self._anchors.add(anchor)
        return anchor

    def _write_scope(self, declarations: list[Declaration], owner: Declaration | None, level: int) -> None:
        """Writes the declarations of a header or a class, and between them the titles that comments give."""
        comments = [c for c in self._header.comments if c.kind == "section" and self._is_in(c, owner)]
        for group in _groups(declarations, owner is not None):
            while comments and comments[0].first < group[0].first:
                self._write_section(comments.pop(0), level)
            if owner is not None and group[0].kind == "variable":
                self._write_table("Field", group)
            elif group[0].kind == "variable" or group[0].kind == "macro" and group[1:]:
                self._write_heading(group[0], level, group)
                self._write_table("Constant", group)
            else:
                self._write_one(group, level)
        for comment in comments:
            self._write_section(comment, level)

    def _is_in(self, comment: Comment, owner: Declaration | None) -> bool:
        """Whether `owner` is the innermost declaration around a comment, which stands in no private part."""
        found, inner = None, self._header.declarations
        while around := next((d for d in inner if d.first < comment.first <= d.end), None):
            found, inner = around, around.members
        if found is not owner or owner is None:
            return found is owner
        text = "\n".join(self._header.text.split("\n")[owner.first : comment.first])
        labels = [label[2] for label in _LABEL.finditer(text) if len(label[1]) < comment.column]
        return owner.kind == "class" and (not labels or labels[-1] == "public")

    def _write_section(self, comment: Comment, level: int) -> None:
        if comment.title:
            anchor = self._anchor(re.split("[,:]", comment.title)[0])
            self._lines += [f"{'#' * (2 if level == 3 else level)} {cell([comment.title])} {{ #{anchor} }}", ""]
        self._lines += blocks(comment.lines, self._language)

    def _write_heading(self, first: Declaration, level: int, named: list[Declaration]) -> None:
        first.anchor = self._anchor(first.name or "enum " + named[0].name, first.kind)
        title = ", ".join(f"`{_short(d)}`" for d in named[:3]) + (", …" if named[3:] else "")
        self._lines += [f"{'#' * min(level, 6)} {title} {{ #{first.anchor} }}", ""]
        if level <= 4:
            self._indexed.append(named)

    def _write_one(self, overloads: list[Declaration], level: int) -> None:
        first, leader = overloads[0], overloads[0].leader
        self._write_heading(first, level, [first] if first.name else first.members)
        ends = "" if first.kind == "macro" else _body(first) + ";"
        self._lines += [f"```{self._language}", *(d.text + ends for d in overloads), "```", ""]
        for comment in first.comments:
            self._lines += blocks(comment.lines, self._language)
        if leader is not None and (not first.comments or leader.behind):
            self._lines += [f"See {_link(leader)}, which stands directly before it.", ""]
        if _is_small(first):
            for member in first.members:
                member.anchor = first.anchor
        elif first.kind == "enum":
            self._write_table("Value", first.members)
        else:
            self._write_scope(first.members, first, level + 1)

    def _write_table(self, title: str, declarations: list[Declaration]) -> None:
        self._lines += [f"| {title} | Meaning |", "| --- | --- |"]
        for (_, text), group in itertools.groupby(declarations, key=lambda d: (d.first, d.text)):  # uint32_t low, high;
            row, marks = list(group), ""
            for each in row:
                if not each.anchor:
                    each.anchor = self._anchor(each.name, each.kind)
                    marks += f'<span id="{each.anchor}"></span>'
            before, behind = [c for d in row for c in d.before], [c for d in row for c in d.behind]
            if before and behind and row[0].kind != "macro":  # the comment before speaks of the rows that follow, too
                self._lines.append(f"| | {' '.join(cell(c.lines) for c in before)} |")
                before = []
            code = " ".join(re.sub(r" = \{\n.*", " = {...}", text, flags=re.DOTALL).split())
            self._lines.append(f"| {marks}`{code}` | {' '.join(cell(c.lines) for c in before + behind)} |")
        self._lines.append("")


def _groups(declarations: list[Declaration], in_class: bool) -> list[list[Declaration]]:
    """Puts together what has one heading or table: constants that follow each other, fields of a class, overloads."""
    groups: list[list[Declaration]] = []
    for each in declarations:
        last = groups[-1][-1] if groups else each
        is_field = in_class and each.kind == "variable"
        is_constant = each.follows and each.kind in ("variable", "macro") and not re.match(r"#define \w+\(", each.text)
        is_overload = each.follows and each.kind == "function" and not each.comments and last.name == each.name
        joins = groups and last.kind == each.kind and (is_field or is_constant or is_overload)
        groups[-1].append(each) if joins else groups.append([each])
    return groups


def _is_small(declaration: Declaration) -> bool:
    """Whether code says all of a class or enum: fields or values without comments."""
    return all(m.kind in ("variable", "value") and not m.comments for m in declaration.members)


def _body(declaration: Declaration) -> str:
    if declaration.kind not in ("class", "enum"):
        return ""
    inner, sign = " ... ", "," if declaration.kind == "enum" else ";"
    if declaration.members and _is_small(declaration):
        inner = "\n" + "".join(f"  {text}{sign}\n" for text in dict.fromkeys(m.text for m in declaration.members))
    return f" {{{inner}}}" + (" " + declaration.name if declaration.text.startswith("typedef") else "")


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower().replace("~", "destroy-")).strip("-")


def _short(declaration: Declaration) -> str:
    return declaration.name.removeprefix("nacre::")


def _link(declaration: Declaration) -> str:
    return f"[`{_short(declaration)}`](#{declaration.anchor})"


def _named(entry: str) -> list[str]:
    """The headers that a header of include/nacre, or one of these, includes."""
    return _INCLUDED.findall((ROOT / entry).read_text(encoding="utf-8"))


@functools.cache
def _entries() -> list[str]:
    return sorted(f"include/nacre/{path.name}" for path in (ROOT / "include/nacre").glob("*.h"))


@functools.cache
def _public() -> dict[str, str]:
    """The headers that programs reach, each with the header of include/nacre that its page names."""
    names = sorted((entry.rsplit("/", 1)[-1] for entry in _entries()), key=lambda name: (name != "nacre.h", name))
    found = {path: name for name in names for path in _named(f"include/nacre/{name}")}
    for name in names:
        waiting = _named(f"include/nacre/{name}")
        while waiting:
            for path in _named(waiting.pop(0)):
                if path not in found:
                    found[path] = name
                    waiting.append(path)
    return found


def unlisted(paths: list[str]) -> list[str]:
    """Returns the headers that include/nacre names and `paths` does not."""
    return sorted({path for entry in _entries() for path in _named(entry)} - set(paths))


def overview() -> str:
    """The page that lists the headers of include/nacre."""
    lines = ["# Headers of C and C++", "", "Each header of `nacre/` declares what the pages in its row list.", ""]
    lines += ["| Header | Purpose | Pages |", "| --- | --- | --- |"]
    for entry in _entries():
        purpose = cell(comments_of((ROOT / entry).read_text(encoding="utf-8"))[0].lines)
        links = ", ".join(f"[{path.rsplit('/', 1)[-1]}]({path}.md)" for path in _named(entry))
        lines.append(f"| `<nacre/{entry.rsplit('/', 1)[-1]}>` | {purpose} | {links} |")
    return "\n".join(lines) + "\n"


class Reference:
    """The pages, by their paths on the site, and the places of the names that they declare."""

    def __init__(self, headers: list[str]) -> None:
        self.pages: dict[str, str] = {}
        self._places: dict[str, set[str]] = {}  # by names as "nacre::Program::bind" and "Program::bind"
        self._last: dict[str, set[str]] = {}  # by names as "bind"
        for path, header in read(headers).items():
            if path not in _public():
                raise SystemExit(f"docs/site: {path} is no public header: none of include/nacre includes it")
            self.pages[f"{path}.md"] = Page(header, _public()[path]).text
            waiting = list(header.declarations)
            while waiting:
                each = waiting.pop(0)
                waiting += each.members
                if each.name:
                    self._add(each.name.split("::"), f"{path}.md#{each.anchor}")

    def _add(self, parts: list[str], place: str) -> None:
        sets = [self._places.setdefault("::".join(parts[i:]), set()) for i in range(max(1, len(parts) - 1))]
        for places in [*sets, self._last.setdefault(parts[-1], set())]:
            if not any(place.startswith(f"{other}-") for other in places):  # the first of several overloads
                places.add(place)

    def place_of(self, code: str, here: str) -> str | None:
        """Returns where `code`, as the page `here` has it, is declared: `path.md#anchor`, if there is one place."""
        name = re.sub(r"\(.*\)$", "", code)
        found = self._places.get(name, set())
        if not found and here in self.pages and (name != code or re.match("k?[A-Z]", name)):
            found = self._last.get(name, set())
            found = {place for place in found if place.startswith(here + "#")} or found
        return next(iter(found)) if len(found) == 1 else None


if __name__ == "__main__":
    print("\n".join(Reference(sys.argv[1:]).pages.values()))
