#include "tools/report/html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tools/base/sha256.h"
#include "tools/base/table.h"
#include "tools/report/page_files.h"
#include "tools/report/picture/svg.h"

namespace nacre::tools {
namespace {

constexpr double kBarWidth = 110, kBarHeight = 10;

std::string in_base64(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t j) { return i + j < bytes.size() ? uint32_t(bytes[i + j]) : 0; };
    const uint32_t three = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[three >> shift & 63];
  }
  std::fill_n(text.rbegin(), (3 - bytes.size() % 3) % 3, '=');
  return text;
}

// Returns 'sha256-...', by which a content security policy names a script or a style sheet.
std::string policy_hash(std::string_view text) {
  const auto digest = sha256_digest({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  return "'sha256-" + in_base64(digest) + "'";
}

std::string bar_html(double share, bool full) {
  const double width = std::clamp(share, 0.0, 1.0) * kBarWidth;
  return fmt::format(
      "<svg class=\"page-bar\" aria-hidden=\"true\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">"
      "<rect class=\"page-track\" width=\"{0}\" height=\"{1}\" rx=\"2\"/><rect{3} width=\"{2}\" height=\"{1}\" "
      "rx=\"2\"/></svg>",
      kBarWidth, kBarHeight, svg_number(width), full ? " class=\"page-full\"" : "");
}

std::string short_html(const std::string& text, const std::string& full) {
  if (full.empty() || full == text) return xml_escape(text);
  return fmt::format("<span aria-hidden=\"true\" title=\"{0}\">{1}</span><span class=\"page-unseen\">{0}</span>",
                     xml_escape(full), xml_escape(text));
}

}  // namespace

Html::Html(std::string_view title, bool whole_width) : title_(xml_escape(title)), whole_width_(whole_width) {}

void Html::heading(int level, std::string_view text) {
  text_ += fmt::format("<h{0}>{1}</h{0}>\n", level, xml_escape(text));
}

void Html::paragraph(std::string_view text, std::string_view css_class) {
  text_ += css_class.empty() ? "<p>" : fmt::format("<p class=\"{}\">", css_class);
  text_ += xml_escape(text) + "</p>\n";
}

void Html::named_list(const std::vector<std::pair<std::string, std::string>>& items) {
  text_ += items.size() > 1 ? "<ul class=\"page-findings\">\n" : "<ul>\n";
  for (const auto& [name, words] : items)
    text_ += fmt::format("<li><b>{}</b>: {}</li>\n", xml_escape(name), xml_escape(words));
  text_ += "</ul>\n";
}

void Html::list(const std::vector<std::string>& items) {
  if (items.empty()) return;
  text_ += "<ul>\n";
  for (const std::string& item : items) text_ += fmt::format("<li>{}</li>\n", xml_escape(item));
  text_ += "</ul>\n";
}

void Html::facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  text_ += "<dl class=\"page-facts\">\n";
  for (const auto& [name, value] : facts)
    text_ += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", xml_escape(name), xml_escape(value));
  text_ += "</dl>\n";
}

void Html::definitions(const std::vector<std::pair<std::string, std::string>>& terms) {
  text_ += "<dl>\n";
  for (const auto& [name, value] : terms)
    text_ += fmt::format("<dt>{}</dt><dd>{}</dd>\n", xml_escape(name), xml_escape(value));
  text_ += "</dl>\n";
}

void Html::open_wide(const std::string& label, bool shown, std::string_view css_class) {
  const std::string words = xml_escape(label);
  if (shown) text_ += fmt::format("<p class=\"page-caption\">{}</p>\n", words);
  text_ += fmt::format(
      "<div class=\"page-wide\" role=\"group\" aria-label=\"{0}\" tabindex=\"0\">\n<table class=\"{1}\" "
      "aria-label=\"{0}\">\n",
      words, css_class);
}

void Html::row(const CellRow& cells, const TableOptions& options) {
  text_ += "<tr>";
  for (size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    const char* const css = i >= options.numbers_from ? " class=\"page-number\"" : "";
    const std::string_view element = i == 0 ? "th" : "td";
    text_ += fmt::format("<{}{}{}>", element, i == 0 ? " scope=\"row\"" : "", css);
    if (cell.bar >= 0) text_ += bar_html(cell.bar, cell.text == "equal");
    const std::string words = short_html(cell.text, cell.full);
    if (cell.bar >= 0) text_ += fmt::format("<span class=\"page-bar-text\">{}</span>", words);
    else text_ += cell.link.empty() ? words : fmt::format("<a href=\"#{}\">{}</a>", cell.link, words);
    text_ += fmt::format("</{}>", element);
  }
  text_ += "</tr>\n";
}

void Html::table(const std::vector<std::string>& titles, const std::vector<CellRow>& rows,
                 const TableOptions& options) {
  const std::string label = options.label.empty() ? "Table: " + titles.front() : options.label;
  const bool terms = titles.size() == 2 && options.numbers_from > 1;  // names and texts, which may be long
  open_wide(options.caption.empty() ? label : options.caption, !options.caption.empty(),
            terms                              ? "page-plain page-terms"
            : options.sorts && rows.size() > 1 ? "page-sorts"
                                               : "page-plain");
  text_ += "<thead>\n<tr>";
  for (size_t i = 0; i < titles.size(); ++i)
    text_ += fmt::format("<th scope=\"col\"{}>{}</th>", i >= options.numbers_from ? " class=\"page-number\"" : "",
                         xml_escape(titles[i]));
  text_ += "</tr>\n</thead>\n<tbody>\n";
  for (const CellRow& cells : rows) row(cells, options);
  text_ += "</tbody>\n";
  close_wide();
}

void Html::table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
                 size_t numbers_from) {
  std::vector<CellRow> cells;
  for (const std::vector<std::string>& row : rows) {
    cells.emplace_back();
    for (const std::string& text : row) cells.back().push_back({.text = text});
  }
  table(titles, cells, {.numbers_from = numbers_from});
}

void Html::figure(std::string_view svg, std::string_view caption) {
  text_ += fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", svg, xml_escape(caption));
}

void Html::figure(const LinePlot& plot, std::string_view caption) {
  std::string texts, places;
  for (const LineReadout& readout : line_readouts(plot)) {
    texts += (texts.empty() ? "" : "\n") + readout.text;
    places += (places.empty() ? "" : " ") + svg_number(readout.place);
  }
  text_ += fmt::format("<figure data-readouts=\"{}\" data-places=\"{}\">\n{}<figcaption>{}</figcaption>\n</figure>\n",
                       xml_escape(texts), places, line_plot(plot), xml_escape(caption));
}

void Html::open_section(std::string_view title) {
  const int number = ++sections_;
  const std::string words = xml_escape(title);
  contents_ += fmt::format("<li><a href=\"#part{}\">{}</a></li>\n", number, words);
  text_ += fmt::format(
      "<section id=\"part{0}\" aria-labelledby=\"part{0}-title\">\n<h2 id=\"part{0}-title\">{1}</h2>\n", number, words);
}

void Html::open_details(std::string_view summary) {
  text_ += fmt::format("<details>\n<summary>{}</summary>\n", xml_escape(summary));
}

void Html::open_tabs(std::string_view label) {
  text_ += fmt::format("<div class=\"page-tabs\" data-label=\"{}\">\n", xml_escape(label));
}

void Html::open_tab(std::string_view name, int level) {
  text_ += fmt::format("<section class=\"page-tab\" aria-label=\"{1}\">\n<h{0} class=\"page-tab-name\">{1}</h{0}>\n",
                       level, xml_escape(name));
}

std::string Html::finish() {
  const std::string script = page_script(), style = "\n" + (page_style() + style_);
  const std::string contents =
      sections_ < 2 ? "" : "<nav aria-label=\"Contents\">\n<ul>\n" + contents_ + "</ul>\n</nav>\n";
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; script-src {}; "
             "base-uri 'none'; form-action 'none'\">\n"
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<title>{}</title>\n<style>{}</style>\n</head>\n<body{}>\n",
             policy_hash(style), policy_hash(script), title_, style, whole_width_ ? " class=\"page-whole\"" : "") +
         fmt::format(
             "<a class=\"page-skip\" href=\"#main\">Skip to the content</a>\n<header>\n<h1>{}</h1>\n{}</header>\n"
             "<main id=\"main\">\n",
             title_, contents) +
         text_ + "</main>\n<script>" + script + "</script>\n</body>\n</html>\n";
}

std::vector<Cell> name_cells(const std::vector<std::string>& names, size_t most) {
  const std::set<std::string> different(names.begin(), names.end());
  size_t longest = 0;
  for (const std::string& name : names) longest = std::max(longest, characters(name));
  for (; most < longest; most += most / 2) {
    std::set<std::string> shown;
    for (const std::string& name : different) shown.insert(shorten(name, most));
    if (shown.size() == different.size()) break;
  }
  std::vector<Cell> cells;
  for (const std::string& name : names) cells.push_back({.text = shorten(name, most), .full = name});
  return cells;
}

}  // namespace nacre::tools
