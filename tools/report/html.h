// An HTML page, element by element: one file, nothing from outside, every text escaped. Light and dark as the reader's
// system is. Its one script (page.js) adds sorting, tabs and zoom; without it the page is whole. The page's own content
// security policy lets no other script run, no other style hold and nothing be fetched.
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
  std::string full = {};  // what `text` is short for; "": it is whole
  double bar = -1;        // a bar before the text: share of its full length in [0, 1]; below 0: none
  std::string link = {};  // id of a section
};
using CellRow = std::vector<Cell>;

struct TableOptions {
  size_t numbers_from = 1;   // cells from this column on stand to the right
  std::string caption = {};  // shown above
  std::string label = {};    // for screen readers, where there is no caption
  bool sorts = true;         // by the reader
};

class Html {
 public:
  explicit Html(std::string_view title, bool whole_width = false);

  void add_style(std::string_view css) { style_ += css; }
  void heading(int level, std::string_view text);
  void paragraph(std::string_view text, std::string_view css_class = "");
  void list(const std::vector<std::string>& items);
  void named_list(const std::vector<std::pair<std::string, std::string>>& items);  // the names in bold
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);       // name, value: large, side by side
  void definitions(const std::vector<std::pair<std::string, std::string>>& terms);
  // Scrolls where it is wider than the page. The first cell of a row names it.
  void table(const std::vector<std::string>& titles, const std::vector<CellRow>& rows,
             const TableOptions& options = {});
  void table(const std::vector<std::string>& titles, const std::vector<std::vector<std::string>>& rows,
             size_t numbers_from = 1);
  // A table of one's own between these, which scrolls where it is wider than the page; `shown`: the label stands above.
  void open_wide(const std::string& label, bool shown, std::string_view css_class);
  void close_wide() { text_ += "</table>\n</div>\n"; }
  void figure(std::string_view svg, std::string_view caption);  // `svg` as Svg::finish() gives it
  void figure(const LinePlot& plot, std::string_view caption);
  void raw(std::string_view html) { text_ += html; }

  // A part of the page under a heading of level 2, which the contents link to.
  void open_section(std::string_view title);
  void close_section() { text_ += "</section>\n"; }
  void open_details(std::string_view summary);  // what follows is folded until asked for
  void close_details() { text_ += "</details>\n"; }
  // Parts side by side behind tabs, where the script runs; else one below the other, under headings of `level`.
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

// Short forms that are as different as the names are: shortened in the middle, longer where two would be equal.
std::vector<Cell> name_cells(const std::vector<std::string>& names, size_t most = 36);

}  // namespace nacre::tools
