#include "tools/report/confusion_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/format.h"

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

// A shade by the share of the class's samples: at least 1, 5, 15 and 30 percent.
std::string shade(uint64_t count, uint64_t samples) {
  const double share = double(count) / double(std::max<uint64_t>(samples, 1));
  const int level = share >= 0.3 ? 4 : share >= 0.15 ? 3 : share >= 0.05 ? 2 : 1;
  return fmt::format("page-heat-{}", level);
}

void add_matrix(Html& page, const Confusion& c, const std::string& model) {
  page.open_wide(
      model +
          ": rows are labels, columns what the model says; on the diagonal, in bold, what is right; darker: a "
          "larger share of the row",
      true, "page-matrix");
  std::string html = "<thead>\n<tr><th scope=\"col\">label</th>";
  for (size_t i = 0; i < c.classes; ++i) html += fmt::format("<th scope=\"col\">{}</th>", i);
  html += "<th scope=\"col\">right</th></tr>\n</thead>\n<tbody>\n";
  for (size_t label = 0; label < c.classes; ++label) {
    const uint64_t samples = samples_of(c, label);
    html += fmt::format("<tr><th scope=\"row\">{}</th>", label);
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

void add_confusion(Html& page, const Confusion& confusion, const std::string& model) {
  constexpr size_t kMostPairs = 20;
  const std::vector<Mistake> all = mistakes(confusion);
  if (confusion.classes <= kMostMatrixClasses) add_matrix(page, confusion, model);
  if (all.empty()) return page.paragraph("No class is taken for another.");
  if (confusion.classes <= kMostMatrixClasses) {
    const Mistake& most = all.front();
    return page.paragraph(fmt::format("Most often confused: label {} taken for {}, {} of {}.", most.label,
                                      most.taken_for, most.count,
                                      counted(samples_of(confusion, most.label), "sample")));
  }
  std::vector<CellRow> rows;
  for (size_t i = 0; i < std::min(all.size(), kMostPairs); ++i)
    rows.push_back({{.text = std::to_string(all[i].label)},
                    {.text = std::to_string(all[i].taken_for)},
                    {.text = grouped(all[i].count)},
                    {.text = grouped(samples_of(confusion, all[i].label))}});
  page.table(
      {"label", "taken for", "samples", "of"}, rows,
      {.numbers_from = 0,
       .caption = fmt::format("{}: the pairs that are confused most, {} of {}", model, rows.size(), all.size())});
}

}  // namespace nacre::tools
