"""Checks the files of the documentation's site: docs_site.py SITE. Prints what is wrong, a line each, and ends with
1; else prints one line of counts.

  links       links within the site lead to files and anchors that are there; no picture, script, style is on another host
  Markdown    every page has the headings, list items, rows of tables and blocks of code that another reader of its source (mistune) finds
  headers     the page of a public header is not its code: it has an anchor for each function, class and enum outside of classes, and each line
              of a comment at a declaration that programs see
  names       each public name of the package, and each public method and property of its classes, has an anchor and its docstring on the page of
              the package
"""

import ast
import collections
import html.parser
import pathlib
import re
import sys
import textwrap
import urllib.parse

import mistune
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESOURCES = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href", "object": "data"}
COUNTED = ("h1", "h2", "h3", "li", "tr", "pre")
faults: list[str] = []


class Reader(html.parser.HTMLParser):
    """The links, resources, anchors and text of a page. Counts what its article holds."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.resources: list[str] = []
        self.anchors: set[str] = set()
        self.counts: collections.Counter[str] = collections.Counter()
        self.words: list[str] = []
        self.depth = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        self.anchors |= {given[key] for key in ("id", "name") if key in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if RESOURCES.get(tag, "-") in given and given.get("rel") not in ("prev", "next", "canonical"):
            self.resources.append(given[RESOURCES[tag]])
        self.depth += tag == "article"
        if self.depth:
            self.counts[tag] += tag in COUNTED

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "article"

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.words.append(data)

    @property
    def text(self) -> str:
        return plain("".join(self.words))


def plain(text: str) -> str:
    return re.sub(r"[\s`*\u00b6]", "", text)


def check_links(pages: dict[pathlib.Path, Reader], site: pathlib.Path) -> int:
    count = 0
    for path, page in pages.items():
        for link in page.links + page.resources:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("data", "mailto") or path.name == "404.html":  # is shown at any address
                continue
            if parts.netloc:
                if link in page.resources:
                    faults.append(f"{path}: asks another host: {link}")
                continue
            count += 1
            target = (site / path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path else site.resolve() / path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                faults.append(f"{path}: {link} leads nowhere")
            elif parts.fragment and target.suffix == ".html":
                if urllib.parse.unquote(parts.fragment) not in pages[target.relative_to(site.resolve())].anchors | {"__comments"}:
                    faults.append(f"{path}: {link} has no such anchor")
    return count


def check_sources(pages: dict[pathlib.Path, Reader], nav: object) -> tuple[int, int]:
    read = headers = 0
    for entry in nav if isinstance(nav, list) else []:
        for value in entry.values():
            if isinstance(value, list):
                more = check_sources(pages, value)
                read, headers = read + more[0], headers + more[1]
                continue
            source = ROOT / value
            if not source.is_file():
                continue
            text = source.read_text(encoding="utf-8")
            if source.suffix == ".h":
                headers += 1
                check_header(value, text, pages[pathlib.Path(value + ".html")])
            if source.suffix == ".md":
                uri = pathlib.Path(re.sub(r"(^|/)README\.md$", r"\1index.md", value)).with_suffix(".html")
                if "A program prints this page" in text:  # the site has what it prints, tables of over 50 rows
                    if pages[uri].counts["tr"] < 50:
                        faults.append(f"{value}: the site has no tables of its program")
                    continue
                read += 1
                wanted = Reader(f"<article>{mistune.html(text)}</article>").counts
                found = pages[uri].counts
                faults.extend(f"{value}: {found[tag]} of {wanted[tag]} {tag}" for tag in COUNTED if found[tag] != wanted[tag])
    return read, headers


def check_header(path: str, text: str, page: Reader) -> None:
    """Reads a header line by line, as clang-format indents it, without the tools of the site. A header of C has no code in bodies."""
    shown = page.text
    space, owner, private, in_block = "", "", False, False
    for line in text.split("\n"):
        code, comment, in_block = divided(line, in_block)
        private = (private or line == " private:") and not line.startswith("}") and line != " public:"
        owner = "" if line.startswith("}") else owner
        indent = len(code) - len(code.lstrip()) if code.strip() else len(line) - len(line.lstrip())
        seen = text.startswith("/*") or indent == 0 or owner in ("class", "enum") and indent == 2 and not private
        if seen and not re.match(r"#(?!define)|}|static_assert|#define \w+_H$", code) and plain(comment) not in shown:
            faults.append(f"{path}: not on its page: {comment.strip()}")
        if named := re.match(r"namespace ([\w:]+?)(::inline \w+)? {", code):
            space = named[1] + "::"
        if re.match(r"}\s*$", code) and "namespace" in comment:
            space = ""
        if indent or not code or code.startswith(("#", "}", "extern ")):
            continue
        kind = re.match(r"(?:typedef )?(class|struct|enum)\b(?: class)?(?: alignas\(\d+\))? ?(\w*(?:<\w+>)?)", code)
        if kind and "{" in code and "}" not in code:
            owner = "enum" if kind[1] == "enum" else "class"
        name = kind[2] if kind and "{" in code else "" if kind else (re.match(r"[\w:<>,&*\[\] ]*?[ *&](\w+)\(", code) or ["", ""])[1]
        anchor = re.sub(r"[^a-z0-9]+", "-", (space + name).lower()).strip("-")
        if name and name != "__attribute__" and anchor not in page.anchors:
            faults.append(f"{path}: its page has no anchor {anchor}")
    if "#pragmaonce" in shown or "#ifndef" in shown:
        faults.append(f"{path}: its page is the header itself")


def divided(line: str, in_block: bool) -> tuple[str, str, bool]:
    """The code of a line, its comment without signs, and whether a comment goes on in the next line."""
    if in_block:
        text, ends, _ = line.partition("*/")
        return "", re.sub(r"^ *\* ?", "", text), not ends
    found = re.search(r"//|/\*", line)
    if found is None:
        return line, "", False
    text, ends, _ = line[found.end() :].partition("*/") if found[0] == "/*" else (line[found.end() :], "*/", "")
    return line[: found.start()].rstrip(), re.sub(r"^ -{4} | -{4} *$", "", text), not ends


def listed_by(tree: ast.Module) -> list[str]:
    """Returns the names in a module's __all__."""
    named = (s.value for s in tree.body if isinstance(s, ast.Assign) and getattr(s.targets[0], "id", "") == "__all__")
    return ast.literal_eval(next(named, ast.List([])))


def members_of(node: ast.AST, classes: dict[str, ast.ClassDef]) -> dict[str, ast.FunctionDef]:
    """Returns the public methods and properties of a class and of its bases in the package, with __call__."""
    found: dict[str, ast.FunctionDef] = {}
    if not isinstance(node, ast.ClassDef):
        return found
    for base in node.bases:
        found |= members_of(classes.get(getattr(base, "id", ""), ast.Pass()), classes)
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and (member.name == "__call__" or not member.name.startswith("_")):
            found[member.name] = member
    return found


def docstrings() -> dict[str, str]:
    """Returns the docstrings of the package's public names, read from the sources, not from the site or its tools."""
    package = ROOT / "python" / "nacre"
    trees = {path.stem: ast.parse(path.read_text()) for path in sorted(package.glob("*.py"))}
    nodes = [node for tree in trees.values() for node in tree.body]
    defined = {node.name: node for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    classes = {name: node for name, node in defined.items() if isinstance(node, ast.ClassDef)}
    found: dict[str, str] = {}

    def add(where: str, node: ast.AST) -> None:
        found[where] = ast.get_docstring(node) or ""  # type: ignore[arg-type]
        for name, member in members_of(node, classes).items():
            found[f"{where}.{name}"] = ast.get_docstring(member) or ""

    for name in listed_by(trees["__init__"]):
        if name in defined:
            add(name, defined[name])
        elif name not in trees and name != "version":
            faults.append(f"nacre.{name} is not in the sources")
    for module, tree in trees.items():
        if module.startswith("_"):
            continue
        found[module] = ast.get_docstring(tree) or ""
        for node in [*tree.body, *(defined[name] for name in listed_by(tree) if name in defined)]:
            name = getattr(node, "name", "_")
            if not name.startswith("_"):
                add(f"{module}.{name}", node)
    return found


def pieces_of(doc: str) -> list[str]:
    """Returns the paragraphs of a docstring, with those of the entries of its sections, which the site has in lists."""
    first, *sections = re.split(r"^([A-Z][A-Za-z ]+)\n-{3,}$\n?", doc, flags=re.MULTILINE)
    texts = [first]
    for title, text in zip(sections[::2], sections[1::2]):
        described = re.findall(r"^\S.*\n((?: .*\n?|\n)*)", text, flags=re.MULTILINE)
        texts += [text] if title in ("Notes", "Examples") else map(textwrap.dedent, described)
    return [paragraph for text in texts for paragraph in text.split("\n\n") if not paragraph.startswith("    ")]


def check_names(page: Reader) -> int:
    found = docstrings()
    shown = page.text
    for name, doc in found.items():
        if f"nacre.{name}" not in page.anchors:
            faults.append(f"nacre.{name}: the page has no such anchor")
        for paragraph in pieces_of(doc):
            if plain(paragraph) not in shown:
                faults.append(f"nacre.{name}: not on the page: {paragraph[:80]!r}")
    return len([doc for doc in found.values() if doc])


def main() -> None:
    site = pathlib.Path(sys.argv[1])
    pages = {path.relative_to(site): Reader(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    links = check_links(pages, site)
    settings = re.sub(r"!!python\S*", "", (ROOT / "docs/site/mkdocs.yml").read_text())
    read, headers = check_sources(pages, yaml.safe_load(settings)["nav"])
    names = check_names(pages[pathlib.Path("python_reference.html")])
    if faults:
        print("\n".join(faults))
        raise SystemExit(1)
    print(
        f"{len(pages)} pages, {links} links and resources lead to files and anchors of the site; {read} pages of Markdown have what another reader"
        f" finds in their sources, {headers} headers have their declarations and comments; {names} docstrings of the package are there, all with anchors"
    )


main()
