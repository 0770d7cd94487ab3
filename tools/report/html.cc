#include "tools/report/html.h"

#include <fmt/format.h>

#include "tools/report/svg.h"

namespace nacre::tools {
namespace {

// Class names start with "page-": pictures bring style sheets of their own, which hold for the whole page.
constexpr const char* kPageStyle =
    ":root { color-scheme: light dark; --ink: #1a1a1a; --faint: #666; --line: #ddd; --paper: #fff; --mark: #f5f6f8 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "  :root { --ink: #e8e8e8; --faint: #a0a0a0; --line: #3a3d42; --paper: #17191c; --mark: #22252a } }\n"
    "body { font: 15px/1.5 Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; color: var(--ink);\n"
    "  background: var(--paper); max-width: 1200px; margin: 2em auto; padding: 0 1.2em }\n"
    "h1 { font-size: 1.7em } h2 { font-size: 1.3em; margin-top: 2em; border-bottom: 1px solid var(--line) }\n"
    "h3 { font-size: 1.05em; margin-top: 1.5em }\n"
    "table { border-collapse: collapse; font-size: 0.88em; font-variant-numeric: tabular-nums }\n"
    "th, td { padding: 0.25em 0.8em 0.25em 0; text-align: left; border-bottom: 1px solid var(--line); "
    "white-space: nowrap }\n"
    "th { color: var(--faint); font-weight: normal }\n"
    "tbody tr:hover { background: var(--mark) }\n"
    ".page-number { text-align: right }\n"
    ".page-wide { overflow-x: auto }\n"
    "figure { margin: 1em 0; overflow-x: auto } figcaption { color: var(--faint); font-size: 0.88em }\n"
    "summary { cursor: pointer; color: var(--faint); margin: 1em 0 }\n";

}  // namespace

Html::Html(std::string_view title) {
  const std::string name = xml_escape(title);
  text_ = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n",
      name, kPageStyle);
}

void Html::heading(int level, std::string_view text) {
  text_ += fmt::format("<h{0}>{1}</h{0}>\n", level, xml_escape(text));
}

void Html::paragraph(std::string_view text) { text_ += fmt::format("<p>{}</p>\n", xml_escape(text)); }

void Html::list(const std::vector<std::string>& items) {
  if (items.empty()) return;
  text_ += "<ul>\n";
  for (const std::string& item : items) text_ += fmt::format("<li>{}</li>\n", xml_escape(item));
  text_ += "</ul>\n";
}

void Html::table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                 size_t numbers_from) {
  const auto line = [&](const std::vector<std::string>& cells, const char* element) {
    text_ += "<tr>";
    for (size_t i = 0; i < cells.size(); ++i)
      text_ += fmt::format("<{}{}>{}</{}>", element, i >= numbers_from ? " class=\"page-number\"" : "",
                           xml_escape(cells[i]), element);
    text_ += "</tr>\n";
  };
  text_ += "<div class=\"page-wide\">\n<table>\n<thead>\n";
  line(titles, "th");
  text_ += "</thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) line(row, "td");
  text_ += "</tbody>\n</table>\n</div>\n";
}

void Html::figure(std::string_view svg, std::string_view caption) {
  text_ += fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", svg, xml_escape(caption));
}

void Html::open_details(std::string_view summary) {
  text_ += fmt::format("<details>\n<summary>{}</summary>\n", xml_escape(summary));
}

void Html::close_details() { text_ += "</details>\n"; }

std::string Html::finish() { return text_ + "</body>\n</html>\n"; }

}  // namespace nacre::tools
