// Html: builds an HTML page element by element: one file without external parts, with texts escaped (but not raw() and
// pictures). It is light or dark like the reader's system. Its script (page.js) adds sorting, tabs, zoom and search;
// the page is complete without it. Its content security policy forbids other scripts, other styles and fetching.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/report/plots/line_plot.h"

namespace nacre::tools {

struct Cell {
  std::string text;
  std::string full = {};  // the whole of a shortened `text`; "": `text` is whole
  double bar = -1;        // length of a bar before the text, in [0, 1]; below 0: no bar
  std::string link = {};  // id of a section
};
using CellRow = std::vector<Cell>;

struct TableOptions {
  size_t numbers_from = 1;   // cells from this column on are aligned to the right
  std::string caption = {};  // shown above
  std::string label = {};    // for screen readers, if there is no caption
  bool sorts = true;         // the reader can sort the rows
};

class Html {
 public:
  explicit Html(std::string_view title, bool whole_width = false);

  void add_style(std::string_view css) { style_ += css; }
  void heading(int level, std::string_view text);
  void paragraph(std::string_view text, std::string_view css_class = "");
  void list(const std::vector<std::string>& items);
  // Adds a list with the names in bold, in as many columns as the window has room for.
  void named_list(const std::vector<std::pair<std::string, std::string>>& items);
  // Adds pairs of name and value as cards side by side.
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);
  void definitions(const std::vector<std::pair<std::string, std::string>>& terms);
  // Adds a table, which scrolls if it is wider than the page. The first cell of a row names the row.
  void table(const std::vector<std::string>& titles, const std::vector<CellRow>& rows,
             const TableOptions& options = {});
  void table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
             size_t numbers_from = 1);
  // The caller writes a table between these two. It scrolls if it is wider than the page. `shown`: its label is
  // visible.
  void open_wide(const std::string& label, bool shown, std::string_view css_class);
  void close_wide() { text_ += "</table>\n</div>\n"; }
  void figure(std::string_view svg, std::string_view caption);  // `svg` as Svg::finish() gives it
  void figure(const LinePlot& plot, std::string_view caption);
  void raw(std::string_view html) { text_ += html; }

  // Figures and parts between open_flow() and close_flow() stand side by side if the window is wide enough.
  void open_flow() { text_ += "<div class=\"page-flow\">\n"; }
  void close_flow() { text_ += "</div>\n"; }
  void open_part() { text_ += "<div class=\"page-part\">\n"; }
  void close_part() { text_ += "</div>\n"; }

  // Begins a part of the page under a heading of level 2, to which the contents link.
  void open_section(std::string_view title);
  void close_section() { text_ += "</section>\n"; }
  void open_details(std::string_view summary);  // hides what follows until the reader opens it
  void close_details() { text_ += "</details>\n"; }
  // Between these are parts behind tabs. Without the script they follow one another, under headings of `level`.
  void open_tabs(std::string_view label);
  void open_tab(std::string_view name, int level = 3);
  void close_tab() { text_ += "</section>\n"; }
  void close_tabs() { text_ += "</div>\n"; }

  std::string finish();

 private:
  void row(const CellRow& cells, const TableOptions& options);

  std::string title_, style_, text_, contents_;
  bool whole_width_;
  int sections_ = 0;
};

// Shortens names in the middle, and keeps different names different by making them longer if needed.
std::vector<Cell> name_cells(const std::vector<std::string>& names, size_t most = 36);

}  // namespace nacre::tools
