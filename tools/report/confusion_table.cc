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
  size_t label, taken_for;
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
          ": rows are labels, columns what the model says; on the diagonal, in bold, what is right; darker: a "
          "larger share of the row",
      true, "page-matrix");
  std::string html = "<thead>\n<tr><th scope=\"col\">label</th>";
  for (size_t i = 0; i < c.classes; ++i) html += heading_cell(across[i], "col");
  html += "<th scope=\"col\">right</th></tr>\n</thead>\n<tbody>\n";
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

}  // namespace

void add_confusion(Html& page, const Confusion& confusion, const std::string& model,
                   const std::vector<std::string>& names) {
  constexpr size_t kMostPairs = 20;
  const std::vector<std::string> classes = class_names(confusion.classes, names);
  const std::vector<Mistake> all = mistakes(confusion);
  if (confusion.classes <= kMostMatrixClasses) add_matrix(page, confusion, model, classes);
  if (all.empty()) return page.paragraph("No class is taken for another.");
  if (confusion.classes <= kMostMatrixClasses) {
    const Mistake& most = all.front();
    return page.paragraph(fmt::format("Most often confused: label {} taken for {}, {} of {}.", classes[most.label],
                                      classes[most.taken_for], most.count,
                                      counted(samples_of(confusion, most.label), "sample")));
  }
  std::vector<CellRow> rows;
  for (size_t i = 0; i < std::min(all.size(), kMostPairs); ++i)
    rows.push_back({{.text = classes[all[i].label]},
                    {.text = classes[all[i].taken_for]},
                    {.text = grouped(all[i].count)},
                    {.text = grouped(samples_of(confusion, all[i].label))}});
  page.table(
      {"label", "taken for", "samples", "of"}, rows,
      {.numbers_from = 0,
       .caption = fmt::format("{}: the pairs that are confused most, {} of {}", model, rows.size(), all.size())});
}

}  // namespace nacre::tools
