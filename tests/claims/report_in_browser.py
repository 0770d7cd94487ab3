"""Looks at pages in Chromium, as readers with a mouse, a keyboard or a screen reader would: report_in_browser.py
BROWSER FOLDER SCREENSHOTS [SCREENSHOTS]

Every page of FOLDER is opened at 400, 1,100, 1,400 and 1,900 pixels, light and dark, and as it prints:

  closed       no message in the console, no error of the script, no violation of its own content security policy, no request
               but the file itself, no dialog (a name that ran as a script would open one)
  fits         the page is no wider than the window; a wider table scrolls in a box of its own, which then has the whole width;
               every table fills its box; at 1,400 pixels no report's first table scrolls, however many columns it has
  speaks       every control, picture, region and link of the accessibility tree has a name; one h1; headings skip no level
  contrast     every text that is shown has at least 4.5 : 1 against what is behind it (3 : 1 where it is large), in both schemes
  keyboard     tables sort by Tab and Enter and say so in aria-sort; tabs turn by arrow keys; curves tell their numbers; a graph is
               searched, zoomed and a step of it chosen, whose attributes then stand beside it
  plain        with scripts switched off every table, graph and step is still there

Then pages that are broken on purpose, one in each way above, must each be found wrong. Prints what is wrong, a line
each, and ends with 1; else prints one line of counts.
"""
import collections
import pathlib
import sys

from playwright.sync_api import sync_playwright

WIDTHS, SCHEMES = (400, 1100, 1400, 1900), ("light", "dark")
SHOWN = ("report_policies", "inspect_digits_int8", "tune")  # pages with screenshots in all folders, and keys tried at 400 pixels
NAMED = {"button", "link", "img", "image", "textbox", "searchbox", "tab", "tabpanel", "tablist", "region", "table", "toolbar", "navigation",
         "graphics-document", "group", "figure", "checkbox", "combobox"}
faults, counts = [], collections.Counter()

CONTRAST = """() => {
  const parse = (text) => (text.match(/[0-9.]+/g) || []).map(Number);
  const over = (a, b) => { const t = a.length > 3 ? a[3] : 1; return [0, 1, 2].map((i) => a[i] * t + b[i] * (1 - t)); };
  const light = (c) => { const v = c.map((x) => { x /= 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * v[0] + 0.7152 * v[1] + 0.0722 * v[2]; };
  const behind = (element) => {
    const layers = [];
    for (let e = element; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0) { layers.push(c); if (c.length === 3) break; }
    }
    return layers.reverse().reduce((under, c) => over(c, under), [255, 255, 255]);
  };
  const bad = [];
  let looked = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || ['STYLE', 'SCRIPT', 'TITLE', 'title', 'style'].includes(element.tagName)) continue;
    if (!element.checkVisibility || !element.checkVisibility() || element.closest('.page-unseen, .page-skip')) continue;
    const style = getComputedStyle(element);
    let ground, ink;
    if (element instanceof SVGElement) {
      const text = element.closest('text');
      if (!text) continue;
      ink = parse(getComputedStyle(text).fill);
      const box = text.parentElement.matches('a, g') ? text.parentElement.querySelector(':scope > rect') : null;
      const named = box && (box.classList.contains('box') || box.classList.contains('tensor')) ? parse(getComputedStyle(box).fill) : null;
      ground = named || behind(text.closest('svg').parentElement);
    } else {
      ink = parse(style.color);
      ground = behind(element);
    }
    const front = over(ink, ground), a = light(front), b = light(ground), ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    looked += 1;
    if (ratio < (large ? 3 : 4.5)) bad.push(`${ratio.toFixed(2)} : 1 of "${walker.currentNode.textContent.trim().slice(0, 40)}"`);
  }
  return {looked, bad: [...new Set(bad)].slice(0, 5)};
}"""
TABLES = """() => {
  const main = document.querySelector('main'), style = getComputedStyle(main);
  const room = main.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const found = [];
  for (const box of document.querySelectorAll('.page-wide')) {
    if (box.clientWidth === 0 || box.closest('.graph-chosen')) continue;
    const table = box.querySelector('table').getBoundingClientRect().width, name = box.getAttribute('aria-label').slice(0, 40);
    if (table < box.clientWidth - 2) found.push(`a table leaves ${Math.round(box.clientWidth - table)} pixels of its box empty: ${name}`);
    if (box.scrollWidth > box.clientWidth + 1 && box.clientWidth < room - 60) found.push(`a table scrolls beside an empty place: ${name}`);
  }
  return found;
}"""
HEADINGS = """() => {
  const levels = [...document.querySelectorAll('h1, h2, h3, h4')].filter((h) => h.checkVisibility()).map((h) => Number(h.tagName[1]));
  return {first: levels.filter((l) => l === 1).length, skips: levels.some((l, i) => i > 0 && l > levels[i - 1] + 1), all: levels.join('')};
}"""


def check(holds, page, what):
    counts["checks"] += 1
    if not holds:
        faults.append(f"{page}: {what}")


def watch(page, name, path):
    page.on("console", lambda m: faults.append(f"{name}: console: {m.text}"))
    page.on("pageerror", lambda e: faults.append(f"{name}: script: {e}"))
    page.on("dialog", lambda d: (faults.append(f"{name}: a dialog: {d.message}"), d.dismiss()))
    page.on("request", lambda r: None if r.url.split("#")[0] == path.as_uri() else faults.append(f"{name}: a request: {r.url}"))
    page.goto(path.as_uri())


def accessible_names(page, name, context):
    session = context.new_cdp_session(page)
    session.send("Accessibility.enable")
    for node in session.send("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value", "")
        if node.get("ignored") or role not in NAMED:
            continue
        counts["named"] += 1
        if not node.get("name", {}).get("value", "").strip():
            if role == "group" or role == "figure":  # parts of a picture, whose titles or texts name them
                continue
            faults.append(f"{name}: a {role} without a name")
    session.detach()


def sort_by_keyboard(page, name):
    tables = page.locator("table.page-sorts:visible")
    for index in range(min(tables.count(), 3)):
        table = tables.nth(index)
        buttons = table.locator("thead button")
        rows = table.locator("tbody tr").count()
        for column in range(buttons.count()):
            title = table.locator("thead th").nth(column)
            buttons.nth(column).focus()
            seen = []
            for _ in range(2):
                page.keyboard.press("Enter")
                cells = table.locator(f"tbody tr > :nth-child({column + 1})").all_inner_texts()
                seen.append((title.get_attribute("aria-sort"), cells))
            check({seen[0][0], seen[1][0]} == {"ascending", "descending"}, name, f"aria-sort of a table is {seen[0][0]}, {seen[1][0]}")
            check(len(seen[0][1]) == rows and sorted(seen[0][1]) == sorted(seen[1][1]), name, "sorting loses rows")
            numbers = [float(c.replace(",", "").split()[0]) for c in seen[0][1] if c and c.replace(",", "").split()[0].lstrip("-").replace(".", "", 1).isdigit()]
            if len(numbers) == rows:
                check(numbers == sorted(numbers, reverse=seen[0][0] == "descending"), name, f"a column is not sorted: {numbers}")
            counts["sorted"] += 1
    check(tables.count() > 0, name, "no table sorts")


def turn_tabs(page, name):
    for group in page.locator("[role=tablist]").all():
        tabs = group.locator("[role=tab]")
        if not group.is_visible():
            continue
        tabs.nth(0).focus()
        for index in range(1, tabs.count()):
            page.keyboard.press("ArrowRight")
            tab = tabs.nth(index)
            panel = page.locator(f"[id='{tab.get_attribute('aria-controls')}']")
            check(tab.get_attribute("aria-selected") == "true" and panel.is_visible(), name, "an arrow key turns no tab")
            check(group.locator("[aria-selected=true]").count() == 1, name, "two tabs are chosen")
            counts["tabs"] += 1
        page.keyboard.press("Home")
        check(tabs.nth(0).get_attribute("aria-selected") == "true", name, "Home does not lead to the first tab")


def use_graph(page, name):
    view = page.locator(".graph-view:visible").first
    root = page.locator(".graph:visible").first
    link = root.locator("svg a").nth(1)
    step = link.get_attribute("aria-label")
    search = root.locator("input[type=search]")
    search.fill(link.get_attribute("data-search").split()[0])
    page.keyboard.press("Enter")
    found = root.locator(".graph-tools output").first.inner_text()
    check(" of " in found and root.locator("a.found").count() >= 1, name, f"a search says {found!r}")
    search.fill("no such name anywhere")
    check("nothing" in root.locator(".graph-tools output").first.inner_text(), name, "a search for nothing finds something")
    search.fill("")
    link.focus()
    page.keyboard.press("Enter")
    chosen = root.locator(".graph-chosen").inner_text()
    check(f"Step {step.split(':')[0].split()[1]}:" in chosen and "operand" in chosen, name, f"a step is chosen and this is told: {chosen[:60]!r}")
    page.keyboard.press("ArrowDown")
    at = page.evaluate("document.activeElement.getAttribute('aria-label')")
    check(at == root.locator("svg a").nth(2).get_attribute("aria-label"), name, f"an arrow key leads from the second step to {at!r}")
    check(root.locator("svg a[tabindex='0']").count() == 1, name, "the steps of a graph are many stops of the Tab key")
    before = root.locator("svg.picture").bounding_box()["width"]
    view.focus()
    page.keyboard.press("+")
    larger = root.locator("svg.picture").bounding_box()["width"]
    page.keyboard.press("-")
    page.keyboard.press("-")
    smaller = root.locator("svg.picture").bounding_box()["width"]
    check(larger > before > smaller, name, f"+ and - zoom from {before} to {larger} and {smaller}")
    for button in root.locator(".graph-tools button").all():
        button.click()
    box = view.bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 50)
    page.keyboard.down("Control")
    at = root.locator("svg.picture").bounding_box()["width"]
    page.mouse.wheel(0, -200)
    page.wait_for_timeout(60)
    page.keyboard.up("Control")
    check(root.locator("svg.picture").bounding_box()["width"] > at, name, "the wheel does not zoom")
    counts["graphs"] += 1


def read_curves(page, name):
    for figure in page.locator("figure[data-readouts]").all():
        figure.locator("svg").focus()
        last = figure.locator(".page-readout").inner_text()
        page.keyboard.press("Home")
        first = figure.locator(".page-readout").inner_text()
        check(first.startswith("epoch 1:") and first != last, name, f"a curve says {first!r}")
        counts["curves"] += 1


def without_script(browser, path, name):
    context = browser.new_context(java_script_enabled=False, viewport={"width": 1100, "height": 1000})
    page = context.new_page()
    watch(page, name + " without script", path)
    check(page.locator("button, [role=tab]").count() == 0, name, "a button is there that does nothing")
    for panel in page.locator(".page-tab").all():
        check(panel.is_visible(), name, "without a script a part is hidden")
    for view in page.locator(".graph-view").all():
        check(view.is_visible(), name, "without a script a graph is hidden")
    context.close()


def open_all(browser, path, shots, widths=WIDTHS, schemes=SCHEMES, plain=True):
    name = path.stem
    for scheme in schemes:
        for width in widths:
            context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=scheme)
            page = context.new_page()
            watch(page, name, path)
            page.wait_for_timeout(30)
            across = page.evaluate("document.documentElement.scrollWidth")
            check(across <= width, name, f"is {across} pixels wide in a window of {width}")
            for found in page.evaluate(TABLES):
                check(False, name, f"{found}, in a window of {width}")
            if width >= 1400 and name.startswith("report_"):
                cut = page.evaluate("(() => { const t = document.querySelector('.page-wide'); return t && t.clientWidth > 0 ? t.scrollWidth - t.clientWidth : 0; })()")
                check(cut <= 0, name, f"its first table is cut by {cut} pixels in a window of {width}")
            if width == 1100:
                contrast = page.evaluate(CONTRAST)
                counts["texts"] += contrast["looked"]
                for bad in contrast["bad"]:
                    faults.append(f"{name}, {scheme}: {bad}")
            if width == 1100 and scheme == "light":
                headings = page.evaluate(HEADINGS)
                check(headings["first"] == 1 and not headings["skips"], name, f"headings of levels {headings['all']}")
                accessible_names(page, name, context)
            keep(page, f"{name}_{width}_{scheme}", shots, name in SHOWN)
            if scheme == "light" and (width == 1100 or width == 400 and name in SHOWN):
                sort_by_keyboard(page, name)
                turn_tabs(page, name)
                read_curves(page, name)
                if page.locator(".graph:visible").count() > 0:
                    use_graph(page, name)
            if scheme == "dark" and width == 1100:
                page.emulate_media(media="print")
                across = page.evaluate("document.documentElement.scrollWidth")
                check(across <= width, name, "in print it is wider than the paper")
                check(page.locator("[role=tabpanel]").count() == page.locator("[role=tabpanel]:visible").count(), name, "in print a part is hidden")
                check(page.locator("[role=tab]:visible, .graph-tools:visible").count() == 0, name, "in print there are buttons")
                shown = page.evaluate("[...document.querySelectorAll('.page-tab-name')].every((n) => n.getBoundingClientRect().height > 10)")
                check(shown, name, "in print a part has no title")
            context.close()
    if plain:
        without_script(browser, path, name)


def keep(page, name, folders, shown):
    if shown and page.locator(".graph:visible").count() > 0:  # with a step whose weights are listed
        page.locator(".graph:visible svg a").nth(2).click()
        page.mouse.move(0, 0)
    page.evaluate("window.scrollTo(0, 0)")
    for folder in folders if shown else folders[:1]:  # no screenshots of broken pages
        page.screenshot(path=folder / f"{name}.png")
    counts["screenshots"] += 1


def shrink(folder):
    from PIL import Image

    for path in sorted(folder.glob("*.png")):
        image = Image.open(path).convert("RGB").quantize(colors=64, dither=Image.Dither.NONE)
        image.save(path, optimize=True)


# Changes that break a page, and the words that must name the fault.
def without_policy(html):
    start = html.index("<meta http-equiv")
    return html[:start] + html[html.index(">", start) + 1:]


BROKEN = [
    ("a request", lambda h: without_policy(h).replace("</main>", '<img alt="x" src="http://127.0.0.1:9/x.png"></main>')),
    (": console: ", lambda h: h.replace("</main>", '<img alt="x" src="http://127.0.0.1:9/x.png"></main>')),  # the policy refuses it, and says so
    (": console: ", lambda h: h.replace("'use strict';", "'use strict'; ", 1)),  # another script than the policy names
    (": script: ", lambda h: without_policy(h).replace("'use strict';", "'use strict'; setTimeout(() => { throw new Error('x'); });", 1)),
    ("a dialog", lambda h: without_policy(h).replace("</main>", "<script>alert(1)</script></main>")),
    ("pixels wide", lambda h: without_policy(h).replace("</main>", '<p style="width: 3000px; max-width: none">x</p></main>')),
    ("of its box empty", lambda h: without_policy(h).replace("border-collapse: collapse; width: 100%", "border-collapse: collapse")),
    ("beside an empty place", lambda h: without_policy(h).replace(".page-wide { overflow-x: auto;", ".page-wide { overflow-x: auto; max-width: 200px;")),
    ("without a name", lambda h: h.replace("</main>", "<button></button></main>")),
    ("without a name", lambda h: h.replace(' role="img" aria-label="top-1', ' role="img" data-label="top-1')),
    (": console: ", lambda h: h.replace("</main>", '<p style="color: red">x</p></main>')),  # another style than the policy names
    (" : 1 of ", lambda h: without_policy(h).replace("--faint: #575d68", "--faint: #9aa0aa")),
    ("headings", lambda h: h.replace("<main id", "<h1>again</h1><main id")),
    ("is not sorted", lambda h: without_policy(h).replace("sign * (x === y", "(x === y")),
    ("aria-sort", lambda h: without_policy(h).replace("other === title ? now", "other === title ? 'other'")),
    ("turns no tab", lambda h: without_policy(h).replace("ArrowRight: index + 1", "ArrowUp: index + 1")),
    ("in print a part is hidden", lambda h: without_policy(h).replace("[role=tabpanel][hidden] { display: block }", "")),
    ("without a script", lambda h: without_policy(h).replace(".page-note,", ".page-tab { display: none } [role=tabpanel] { display: block } .page-note,")),
]


def find_broken(browser, page, folder):
    """Returns how many pages that are broken on purpose are found wrong. The others become faults."""
    global faults
    found, whole = 0, page.read_text()
    for index, (said, change) in enumerate(BROKEN):
        path = folder / f"broken{index}.html"
        path.write_text(change(whole))
        assert path.read_text() != whole, f"broken page {index} is not broken"
        before, faults = faults, []
        open_all(browser, path, [], widths=(400,) if said == "pixels wide" else (1100,), schemes=("dark",) if "print" in said else ("light",),
                 plain="without a script" in said)
        missed = not any(said in fault for fault in faults)
        faults = before + ([f"a page broken on purpose ({said}, {index}) is not found out"] if missed else [])
        found += not missed
    return found


def main():
    browser_path, folder, *shots = sys.argv[1:]
    shots = [pathlib.Path(s) for s in shots]
    for shot in shots:
        shot.mkdir(parents=True, exist_ok=True)
    pages = sorted(pathlib.Path(folder).glob("*.html"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        version = browser.version
        for path in pages:
            open_all(browser, path, shots)
        told = collections.Counter(counts)
        (pathlib.Path(folder) / "broken").mkdir(exist_ok=True)
        found = find_broken(browser, pathlib.Path(folder) / "report_two.html", pathlib.Path(folder) / "broken")
        browser.close()
    for shot in shots[1:]:
        shrink(shot)
    if faults:
        print("\n".join(dict.fromkeys(faults)))
        sys.exit(1)
    print(f"{len(pages)} pages in Chromium {version.split('.')[0]}, {told['screenshots']} screenshots at 400, 1,100 and 1,900 pixels, light and dark, "
          f"0 messages in the console, 0 requests; {told['checks']} checks, {told['named']} names of the accessibility tree, {told['texts']} texts' "
          f"contrast, {told['sorted']} columns sorted and {told['tabs']} tabs turned by keyboard, {told['graphs']} graphs searched and zoomed, "
          f"{told['curves']} curves read; {found} of {len(BROKEN)} pages broken on purpose found out")


main()
