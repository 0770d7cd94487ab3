"""The public declarations of C and C++ headers: Doxygen finds them, and the comment that belongs to each.

read(paths) gives the declarations of each header in its order. The text of a declaration is the header's own, and a
wide one gets a line for each parameter. Doxygen says what it declares, where, and who may use it.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as xml

from header_comments import Comment, comments_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
_SETTINGS = """
INPUT_FILTER = "{python} docs/site/header_comments.py"
OUTPUT_DIRECTORY = "{output}"
INPUT = {headers}
STRIP_FROM_PATH = "{root}"
QUIET = YES
WARNINGS = NO
GENERATE_XML = YES
GENERATE_HTML = NO
GENERATE_LATEX = NO
XML_PROGRAMLISTING = NO
EXTRACT_ALL = YES
EXTRACT_STATIC = YES
MARKDOWN_SUPPORT = NO
AUTOLINK_SUPPORT = NO
SEARCH_INCLUDES = NO
MACRO_EXPANSION = YES
EXPAND_ONLY_PREDEF = YES
PREDEFINED = NACRE_SHARED=
"""
_KINDS = {"function": "function", "variable": "variable", "typedef": "typedef", "enum": "enum", "define": "macro",
          "class": "class", "struct": "class", "union": "class"}  # fmt: skip
_WIDTH = 88
_NO_CODE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*|^ *(?:public|private|protected):|^extern \"C\" *", re.MULTILINE)


@dataclasses.dataclass
class Declaration:
    """`kind`: class, enum, value of an enum, function, variable, typedef or macro."""

    kind: str
    name: str  # with the names of its namespaces and classes; "" for an enum without a name
    text: str
    first: int  # lines from 0: of its first word, and of the end of its body
    end: int
    before: list[Comment] = dataclasses.field(default_factory=list)
    behind: list[Comment] = dataclasses.field(default_factory=list)
    members: list[Declaration] = dataclasses.field(default_factory=list)  # of a class, or values of an enum
    follows: bool = False  # the line before it is another declaration
    leader: Declaration | None = None  # stands before it with a comment, and others without one may be between
    anchor: str = ""  # on its page

    @property
    def comments(self) -> list[Comment]:
        return self.before + self.behind


class Header:
    """One header: its text, its comments, and its declarations."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.text = (ROOT / path).read_text(encoding="utf-8")
        self.comments = comments_of(self.text)
        self.declarations: list[Declaration] = []
        code = self.text  # comments are spaces, directives and labels are semicolons
        for c in self.comments:
            code = code[: c.begin] + re.sub(r"[^\n]", " ", code[c.begin : c.end]) + code[c.end :]
        self._code = _NO_CODE.sub(lambda m: re.sub(r"[^\n]", ";", m[0]), code)
        self._starts = [0, *(m.end() for m in re.finditer("\n", self.text))]

    def declaration(self, node: xml.Element, name: str) -> Declaration:
        """Reads from the header what Doxygen found."""
        kind, where = _KINDS[node.get("kind", "")], _location(node)
        line = int(where["line"]) - 1
        if kind == "macro":
            made = Declaration(kind, name, _macro(node, name), line, line)
        else:
            begin, end = self._range(kind, name, self._starts[line])
            text = _laid_out(" " * (begin - self._code.rfind("\n", 0, begin) - 1) + self._code[begin:end])
            if kind == "function" and max(map(len, text.split("\n"))) > _WIDTH:
                text = _a_line_each(text, text.index("(", text.index(name.rsplit("::", 1)[-1])))
            last = max(self.text.count("\n", 0, end), int(where.get("bodyend", "-1")) - 1)
            made = Declaration(kind, name, text, self.text.count("\n", 0, begin), last)
        self._take_comments(node, made)
        return made

    def _range(self, kind: str, name: str, start: int) -> tuple[int, int]:
        """Returns where a declaration begins, and where its semicolon or its body is."""
        short = re.escape(name.rsplit("::", 1)[-1])
        form = {"class": r"\b(?:class|struct|union)\b", "enum": r"\benum\b", "function": rf"(?<!\w){short}\s*\("}
        found = re.compile(form.get(kind, rf"\b{short}\b")).search(self._code, start)
        if found is None or self._code.count("\n", start, found.start()) > 6:
            raise SystemExit(f"docs/site: {self.path}: {name} is not where Doxygen finds it")
        begin = max(self._code.rfind(sign, 0, found.start()) for sign in ";{}") + 1
        begin += len(self._code[begin:]) - len(self._code[begin:].lstrip())
        depth = 0
        for at in range(begin, len(self._code)):
            sign = self._code[at]
            is_body = sign == "{" and kind in ("class", "enum", "function")
            is_initializer = sign == ":" and kind == "function" and ":" not in self._code[at - 1] + self._code[at + 1]
            if depth == 0 and (sign == ";" or is_body or is_initializer):
                return begin, at
            depth += (sign in "([{") - (sign in ")]}")
        raise SystemExit(f"docs/site: {self.path}: {name} has no end")

    def _take_comments(self, node: xml.Element, made: Declaration) -> None:
        words = " ".join("".join(text.itertext()) for text in node.findall("detaileddescription"))
        for side, number in re.findall(r"\b([AB])(\d+)\b", words):
            (made.before if side == "B" else made.behind).append(self.comments[int(number)])

    def values(self, node: xml.Element, enum: Declaration, prefix: str) -> list[Declaration]:
        found, value = [], "0"
        for each in node.findall("enumvalue"):
            name = each.findtext("name", "")
            value = each.findtext("initializer", "").removeprefix("=").strip() or value
            whole = f"{enum.name}::" if enum.name else prefix
            made = Declaration("value", whole + name, f"{name} = {value}" if value else name, enum.first, enum.end)
            self._take_comments(each, made)
            found.append(made)
            value = str(int(value) + 1) if re.fullmatch(r"-?\d+", value) else ""
        return found


def _location(node: xml.Element) -> dict[str, str]:
    found = node.find("location")
    return dict(found.attrib) if found is not None else {}


def _a_line_each(text: str, bracket: int) -> str:
    """Puts each parameter on a line of its own: the column of a page is narrower than a line of a header."""
    begin, depth, parameters = bracket + 1, 0, []
    for at in range(bracket, len(text)):
        depth += (text[at] in "([{<") - (text[at] in ")]}>" and text[at - 1] != "-")
        if depth == 1 and text[at] == "," or depth == 0:
            parameters.append(" ".join(text[begin:at].split()))
            begin = at + 1
        if depth == 0:
            break
    lines = ",\n".join("    " + parameter for parameter in parameters)
    return f"{text[: bracket + 1]}\n{lines}{text[begin - 1 :]}"


def _name(scope: xml.Element) -> str:
    return scope.findtext("compoundname", "").replace("< ", "<").replace(" >", ">")


def _macro(node: xml.Element, name: str) -> str:
    parameters = [parameter.findtext("defname", "") for parameter in node.findall("param")]
    return f"#define {name}" + (f"({', '.join(parameters)})" if parameters else " " + node.findtext("initializer", ""))


def _laid_out(text: str) -> str:
    """A declaration from the left margin, without the word that only compilers need."""
    mark = "NACRE_SHARED "
    lines = [line.rstrip() for line in text.split("\n") if line.strip()]
    if mark in lines[0]:
        lines = [lines[0].replace(mark, "", 1), *(line.removeprefix(" " * len(mark)) for line in lines[1:])]
    return textwrap.dedent("\n".join(lines))


def _is_public(node: xml.Element, header: Header) -> bool:
    """Whether a member is for programs: not private, deleted, or a macro that only the header uses."""
    name = node.findtext("name", "")
    if node.get("kind") == "define":
        says = node.find("param") is not None or node.find("initializer") is not None
        return says and name.startswith("NACRE_") and f"#undef {name}" not in header.text
    is_deleted = node.findtext("argsstring", "").replace(" ", "").endswith("=delete")
    return node.get("kind") in _KINDS and node.get("prot") == "public" and not is_deleted and name != "static_assert"


def _add_members(scope: xml.Element, headers: dict[str, Header], owner: Declaration | None) -> None:
    prefix = "" if scope.get("kind") == "file" else _name(scope) + "::"
    for node in scope.iter("memberdef"):
        header = headers.get(_location(node).get("file", ""))
        if header is None or not _is_public(node, header):
            continue
        name = node.findtext("name", "")
        made = header.declaration(node, "" if name.startswith("@") else prefix + name)
        if made.kind == "enum":
            made.members = header.values(node, made, prefix)
        (header.declarations if owner is None else owner.members).append(made)


def _scopes(paths: list[str]) -> list[xml.Element]:
    """Returns what Doxygen says of files, namespaces and classes; a class comes before those in it."""
    with tempfile.TemporaryDirectory() as output:
        settings = _SETTINGS.format(python=sys.executable, output=output, headers=" ".join(paths), root=ROOT)
        made = subprocess.run(["doxygen", "-"], input=settings, cwd=ROOT, capture_output=True, text=True)
        if made.returncode != 0:
            raise SystemExit(f"docs/site: Doxygen: {made.stderr or made.stdout}")
        trees = [xml.parse(path) for path in sorted(pathlib.Path(output, "xml").glob("*.xml"))]
    return sorted((s for tree in trees for s in tree.iter("compounddef")), key=_name)


def _put_in_order(declarations: list[Declaration]) -> None:
    declarations.sort(key=lambda d: (d.first, d.end))
    for before, each in itertools.pairwise(declarations):
        each.follows = each.first <= before.end + 1 and not each.before
        leader = before.leader or before if before.leader or before.before else None
        if not each.follows or leader is None:
            continue
        if leader.kind == "variable" and each.kind == "function":
            # A comment of a function stands above the constant that the function has.
            each.before, leader.before = leader.before, []
        else:
            each.leader = leader


def read(paths: list[str]) -> dict[str, Header]:
    headers = {path: Header(path) for path in paths}
    scopes = _scopes(paths) if paths else []
    kinds = {_name(scope): scope.get("kind", "") for scope in scopes}
    classes: dict[str, Declaration] = {}
    for scope in scopes:
        name = _name(scope)
        if scope.get("kind") in ("file", "namespace"):
            _add_members(scope, headers, None)
        header, outer = headers.get(_location(scope).get("file", "")), name.rpartition("::")[0]
        is_hidden = scope.get("prot") != "public" or kinds.get(outer) in _KINDS and outer not in classes
        if header is None or scope.get("kind") not in _KINDS or is_hidden:
            continue
        made = classes[name] = header.declaration(scope, name)
        _add_members(scope, headers, made)
        (classes[outer].members if outer in classes else header.declarations).append(made)
    for declarations in [*(h.declarations for h in headers.values()), *(c.members for c in classes.values())]:
        _put_in_order(declarations)
    if paths and not classes:
        raise SystemExit("docs/site: Doxygen finds no class in the headers")
    return headers
