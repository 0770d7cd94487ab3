"""Whether the pages of the documentation's site fit: pages_fit.py BROWSER SITE.

Each page is opened at 1300 and at 400 pixels:

  page     the document is no wider than its window
  boxes    a block of code or a table is no wider than its column, or scrolls in a box of its own that is no wider; no box cuts off what it holds
  text     what stands in no such box ends before its column does: a path or an option that cannot be broken would not

Then pages that are broken on purpose, one in each way above, must each be found out. Prints what is wrong, a line each, and ends with 1; else
one line of counts.
"""

import collections
import pathlib
import sys

from docs_chromium import opened

WIDTHS = (1300, 400)

LOOK = """() => {
  const found = [], column = document.querySelector("article.md-content__inner");
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) found.push(`page: ${root.scrollWidth} pixels wide in a window of ${root.clientWidth}`);
  if (!column) return [found, 0, 0];
  const style = getComputedStyle(column), box = column.getBoundingClientRect();
  const end = box.right - parseFloat(style.paddingRight) + 1;
  const most = Math.min(end + 16, root.clientWidth + 1);  // the theme lets a box reach 16 pixels into the column's margin
  const named = (e) => `<${e.tagName.toLowerCase()}> ${e.textContent.trim().replace(/\\s+/g, " ").slice(0, 60)}`;
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  // The outermost box around e, or e itself, in which a reader scrolls; null where there is none inside of the column.
  const scroller = (e) => { let around = null; while (e && e !== column) { if (scrolls(e)) around = e; e = e.parentElement; } return around; };
  const cuts = (e) => ["hidden", "clip"].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0;
  let boxes = 0, scrolled = 0;
  for (const e of column.querySelectorAll("pre > code, pre:not(:has(> code)), table")) {
    if (e.getClientRects().length === 0) continue;
    boxes += 1;
    const around = scroller(e);
    if (around) {
      if (around.getBoundingClientRect().right > most) found.push(`box: the box that scrolls is wider than its column: ${named(e)}`);
      scrolled += around.scrollWidth > around.clientWidth + 1;
      continue;
    }
    if (e.getBoundingClientRect().right > most || e.scrollWidth > e.clientWidth + 1)
      found.push(`box: wider than its column, and does not scroll: ${named(e)}`);
    for (let a = e; a && a !== column; a = a.parentElement)
      if (cuts(a)) { found.push(`box: cut off: ${named(e)}`); break; }
  }
  const walker = document.createTreeWalker(column, NodeFilter.SHOW_TEXT), range = document.createRange();
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const e = node.parentElement;
    if (!node.data.trim() || scroller(e) || e.closest("nav, .md-clipboard, .headerlink, svg, [hidden]")) continue;
    range.selectNodeContents(node);
    if ([...range.getClientRects()].some((r) => r.width > 0 && r.right > end)) found.push(`text: beyond its column: ${named(e)}`);
  }
  return [found, boxes, scrolled];
}"""

# Ways to break a page, and how what is found begins.
BROKEN = (
    ("document.body.insertAdjacentHTML('beforeend', '<div style=\"width: 3000px; height: 1px\"></div>')", "page: "),
    ("document.querySelectorAll('pre > code').forEach((e) => e.style.overflow = 'visible')", "box: "),
    ("document.querySelectorAll('.md-typeset__scrollwrap').forEach((e) => e.style.overflow = 'hidden')", "box: "),
    ("document.querySelector('article p').style.whiteSpace = 'nowrap'", "text: "),
)


def main() -> None:
    site = pathlib.Path(sys.argv[2])
    faults: list[str] = []
    counts: collections.Counter[str] = collections.Counter()
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html"))
    with opened(sys.argv[1], site) as (page, address):
        for name in pages:
            page.goto(address + name, wait_until="load")
            page.wait_for_function("!document.querySelector('article table:not([class])') || document.querySelector('.md-typeset__scrollwrap')")
            page.add_style_tag(content="* { transition: none !important }")  # the page as it is when a new width has come to rest
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                found, boxes, scrolled = page.evaluate(LOOK)
                faults += [f"{name} at {width} pixels: {fault}" for fault in found]
                counts["boxes"] += boxes
                counts["scrolled"] += scrolled
        for change, wanted in BROKEN:
            page.goto(address + "docs/guides/from_litert.html", wait_until="load")
            page.wait_for_selector(".md-typeset__scrollwrap")
            page.evaluate(change)
            if not any(fault.startswith(wanted) for fault in page.evaluate(LOOK)[0]):
                faults.append(f"not found out: {change}")
    if faults:
        print("\n".join(faults))
        raise SystemExit(1)
    widths = " and ".join(map(str, WIDTHS))
    print(f"{len(pages)} pages at {widths} pixels, none wider than its window; {counts['boxes']} blocks of code and tables fit or scroll in "
          f"their own box ({counts['scrolled']} do), none is cut off; {len(BROKEN)} pages broken on purpose are found out")


main()
