"""Reads the files that docs/site/mkdocs.yml lists from their places in the checkout: none is copied for the site.

Markdown as it is; a code span that names a page, or what a header declares, becomes a link to it, and pictures come
along. A notebook through nbconvert. A header becomes a page of the reference (api.py). `man`: the manual pages that
NACRE_TOOL prints. Two pages of the reference are printed by programs beside this file.
"""

from __future__ import annotations

import os
import pathlib
import posixpath
import re
import subprocess
import sys
import tempfile

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs/site"))

import api  # noqa: E402

_REFERENCE = api.Reference([])  # of the headers that the navigation lists
_LINK = re.compile(r"\]\(([^)#:\s]+)")
_SPAN = re.compile(r"(?<![`\[])`([^`\n]+)`(?!`)")
_FENCE = re.compile(r"^ *(```|~~~)")
_LISTS = re.compile(r"man/|.*\.h\.md$|headers\.md|CHANGELOG|CONTRIBUTING|python_reference|schema/|engine/numeric/|docs/hacking/|bench/|docs/reference/operators")


def on_config(config: MkDocsConfig) -> None:
    """`man` in the navigation becomes its pages."""
    config.nav = [{"Commands": _manual()} if entry == {"Commands": "man"} else entry for entry in config.nav or []]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds what the navigation names and pages/ does not have."""
    global _REFERENCE
    paths = _paths(config.nav)
    headers = [path.removesuffix(".md") for path in paths if path.endswith(".h.md")]
    if missing := api.unlisted(headers):
        raise SystemExit(f"docs/site: mkdocs.yml lists no page for {', '.join(missing)}, which include/nacre names")
    _REFERENCE = api.Reference(headers)
    for path in paths:
        if files.get_file_from_path(path) is None:
            source, kind = ROOT / path.removesuffix(".md"), posixpath.splitext(path.removesuffix(".md"))[1]
            if path.startswith("man/"):
                files.append(File.generated(config, path, content=_MANUAL[path]))
            elif path in _PRINTED:
                files.append(File.generated(config, path, content=_printed(_PRINTED[path])))
            elif kind == ".h":
                files.append(File.generated(config, path, content=_REFERENCE.pages[path]))
            elif path == "headers.md":
                files.append(File.generated(config, path, content=api.overview()))
            elif kind == ".ipynb":
                files.append(File.generated(config, path, content=_notebook(source)))
            else:
                text = (ROOT / path).read_text(encoding="utf-8")
                files.append(File.generated(config, path, content=text))
                _add_pictures(text, path, files, config)
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """`docs/python.md`, where that is a page, is a link to it. The search puts pages that list everything behind those that explain."""
    here = page.file.src_uri
    if _LISTS.match(here) is not None:
        page.meta["search"] = {"boost": 0.3}
    if here.startswith("man/"):
        return markdown

    def linked(span: re.Match[str]) -> str:
        for path in (span[1], span[1] + ".md"):
            if path != here and files.get_file_from_path(path) is not None:
                return f"[{span[0]}]({posixpath.relpath(path, posixpath.dirname(here))})"
        if (place := _REFERENCE.place_of(span[1], here)) is None:
            return span[0]
        path, _, anchor = place.partition("#")
        return f"[{span[0]}]({'' if path == here else posixpath.relpath(path, posixpath.dirname(here))}#{anchor})"

    lines, fenced = [], False
    for line in markdown.split("\n"):
        fence = _FENCE.match(line) is not None
        fenced ^= fence
        lines.append(line if fenced or fence or line.startswith(("    ", "#")) else _SPAN.sub(linked, line))
    return "\n".join(lines)


def _paths(nav: object) -> list[str]:
    """Returns the paths of all pages in `nav`. A file that is no Markdown gets `.md` behind its name, in `nav` too."""
    found: list[str] = []
    for entry in nav if isinstance(nav, list) else []:
        for title, value in entry.items():
            if isinstance(value, list):
                found += _paths(value)
            else:
                entry[title] = value if value.endswith(".md") else value + ".md"
                found.append(entry[title])
    return found


def _add_pictures(text: str, path: str, files: Files, config: MkDocsConfig) -> None:
    for target in _LINK.findall(text):
        uri = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if not uri.endswith(".md") and (ROOT / uri).is_file() and files.get_file_from_path(uri) is None:
            files.append(File.generated(config, uri, abs_src_path=str(ROOT / uri)))


def _notebook(path: pathlib.Path) -> str:
    from nbconvert import MarkdownExporter

    return MarkdownExporter().from_filename(str(path))[0]


_PRINTED = {"docs/reference/operators.md": "operators.py", "docs/reference/errors.md": "errors.py"}  # by their programs


def _printed(program: str) -> str:
    command = [sys.executable, str(ROOT / "docs/site" / program)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


_MANUAL: dict[str, str] = {}  # of the pages of `nacre man`, by their paths on the site


def _manual() -> list[dict[str, str]]:
    tool = os.environ.get("NACRE_TOOL")
    if not tool:
        raise SystemExit("docs/site: NACRE_TOOL names no nacre, which prints the manual pages: docs/build.sh sets it")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([tool, "man", "-o", folder], check=True, stdout=subprocess.DEVNULL)
        for page in sorted(pathlib.Path(folder).iterdir()):
            roff = ["groff", "-man", "-Tutf8", "-P-cbou", "-rLL=90n", str(page)]
            text = subprocess.run(roff, check=True, capture_output=True, text=True).stdout
            title = page.stem.replace("-", " ", 1)
            _MANUAL[f"man/{page.stem}.md"] = f"# {title}\n\n```text\n{text.strip()}\n```\n"
    return [{path.removeprefix("man/").removesuffix(".md").replace("-", " ", 1): path} for path in _MANUAL]
