#include "tools/report/confusion_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/report/picture/svg.h"

namespace nacre::tools {
namespace {

struct Mistake {
  uint64_t count;
  size_t label, predicted;
};

std::vector<Mistake> mistakes(const Confusion& c) {
  std::vector<Mistake> found;
  for (size_t label = 0; label < c.classes; ++label)
    for (size_t other = 0; other < c.classes; ++other)
      if (other != label && c.at(label, other) > 0) found.push_back({c.at(label, other), label, other});
  std::ranges::stable_sort(found, std::ranges::greater(), &Mistake::count);
  return found;
}

uint64_t samples_of(const Confusion& c, size_t label) {
  uint64_t sum = 0;
  for (size_t other = 0; other < c.classes; ++other) sum += c.at(label, other);
  return sum;
}

// Returns the CSS class of the shade for a share of the class's samples: below 5 percent, from 5, from 15, from 30.
std::string shade(uint64_t count, uint64_t samples) {
  const double share = double(count) / double(std::max<uint64_t>(samples, 1));
  const int level = share >= 0.3 ? 4 : share >= 0.15 ? 3 : share >= 0.05 ? 2 : 1;
  return fmt::format("page-heat-{}", level);
}

// Returns each class's name, or its number if it has none. If two classes share a name, their numbers are added.
std::vector<std::string> class_names(size_t classes, const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (size_t i = 0; i < classes; ++i) {
    const std::string name = i < names.size() ? names[i] : "";
    const bool twice = !name.empty() && std::ranges::count(names, name) > 1;
    shown.push_back(name.empty() ? std::to_string(i) : twice ? fmt::format("{} ({})", name, i) : name);
  }
  return shown;
}

std::string heading_cell(const Cell& cell, const char* scope) {
  const std::string title = cell.full == cell.text ? "" : fmt::format(" title=\"{}\"", xml_escape(escaped(cell.full)));
  return fmt::format("<th scope=\"{}\"{}>{}</th>", scope, title, xml_escape(escaped(cell.text)));
}

void add_matrix(Html& page, const Confusion& c, const std::string& model, const std::vector<std::string>& names) {
  const std::vector<Cell> across = name_cells(names, 12), down = name_cells(names);
  page.open_wide(
      model +
          ": rows are true classes, columns are predicted classes; the diagonal, in bold, counts correct predictions; "
          "a darker cell is a larger share of its row",
      true, "page-matrix");
  std::string html = "<thead>\n<tr><th scope=\"col\">true class</th>";
  for (size_t i = 0; i < c.classes; ++i) html += heading_cell(across[i], "col");
  html += "<th scope=\"col\">recall</th></tr>\n</thead>\n<tbody>\n";
  for (size_t label = 0; label < c.classes; ++label) {
    const uint64_t samples = samples_of(c, label);
    html += "<tr>" + heading_cell(down[label], "row");
    for (size_t other = 0; other < c.classes; ++other) {
      const uint64_t count = c.at(label, other);
      const std::string css = label == other ? "page-heat-ok" : shade(count, samples);
      html += count == 0 ? "<td></td>" : fmt::format("<td class=\"{}\">{}</td>", css, count);
    }
    html += samples == 0 ? "<td>-</td></tr>\n"
                         : fmt::format("<td>{:.1f} %</td></tr>\n", 100 * double(c.at(label, label)) / double(samples));
  }
  page.raw(html + "</tbody>\n");
  page.close_wide();
}

// Adds the most frequent confusions: fewer beside a matrix, which shows the others.
void add_pairs(Html& page, const Confusion& c, const std::string& model, const std::vector<std::string>& classes) {
  const size_t most = c.classes <= kMostMatrixClasses ? 10 : 20;
  const std::vector<Mistake> all = mistakes(c);
  if (all.empty()) return page.paragraph("No sample is misclassified.");
  const std::vector<Cell> cells = name_cells(classes);
  std::vector<CellRow> rows;
  for (size_t i = 0; i < std::min(all.size(), most); ++i)
    rows.push_back({cells[all[i].label],
                    cells[all[i].predicted],
                    {.text = grouped(all[i].count)},
                    {.text = grouped(samples_of(c, all[i].label))}});
  page.table({"true class", "predicted class", "errors", "samples of the true class"}, rows,
             {.numbers_from = 2,
              .caption = fmt::format("{}: most frequent confusions, {} of {}", model, rows.size(), all.size())});
}

}  // namespace

void add_confusion(Html& page, const Confusion& confusion, const std::string& model,
                   const std::vector<std::string>& names) {
  const std::vector<std::string> classes = class_names(confusion.classes, names);
  page.open_flow();
  if (confusion.classes <= kMostMatrixClasses) {
    page.open_part();
    add_matrix(page, confusion, model, classes);
    page.close_part();
  }
  page.open_part();
  add_pairs(page, confusion, model, classes);
  page.close_part();
  page.close_flow();
}

}  // namespace nacre::tools
