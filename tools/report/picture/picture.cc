#include "tools/report/picture/picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/table.h"
#include "tools/model/program_cost.h"
#include "tools/policies/policy_name.h"
#include "tools/report/picture/layout.h"
#include "tools/report/picture/memory_picture.h"
#include "tools/report/picture/style.h"
#include "tools/report/picture/svg.h"

namespace nacre::tools {
namespace {

constexpr double kBoxWidth = 246, kBoxHeight = 50, kRowGap = 38, kMargin = 28, kHeader = 112, kPanelGap = 52;
constexpr double kLeastGraph = 300;  // leaves room for labels
constexpr double kPortReach = 0.42;  // share of a box' width, from its middle

// All tensors that pass from one node to another: one line in the picture.
struct Link {
  int from, to;                                        // nodes: inputs, then steps, then outputs
  std::vector<std::pair<uint32_t, uint32_t>> tensors;  // written, read
  double leaves = 0, arrives = 0;                      // x at the boxes
};

class GraphPicture {
 public:
  GraphPicture(const ProgramReport& report, const std::string& name, const PictureOptions& options)
      : report_(report), name_(name), options_(options) {
    collect_links();
    require_size();
    std::vector<LayoutEdge> edges;
    for (const Link& link : links_) edges.push_back({link.from, link.to});
    layout_ = lay_out(node_count(), edges, {.box_width = kBoxWidth});
    left_ = kMargin;
    choose_ports();
  }

  std::string draw();

 private:
  int inputs() const { return int(report_.view().inputs.size()); }
  int steps() const { return int(report_.view().step_count); }
  int node_count() const { return inputs() + steps() + int(report_.view().outputs.size()); }
  double row_top(int row) const { return kHeader + row * (kBoxHeight + kRowGap); }
  double middle(int node) const { return left_ + layout_.x[size_t(node)]; }
  Rectangle box(int node) const {
    return {middle(node) - kBoxWidth / 2, row_top(layout_.row[size_t(node)]), kBoxWidth, kBoxHeight};
  }

  void require_size() const;
  void collect_links();
  void choose_ports();
  void choose_ports(int node, bool leaving);
  double first_aim(size_t link, bool leaving) const;
  void draw_header(Svg& svg, double width) const;
  void draw_link(Svg& svg, size_t index) const;
  void draw_labels(Svg& svg) const;
  void draw_step(Svg& svg, const ReportStep& step) const;
  bool falls_back(const ReportStep& step) const {
    return fallen_.contains(step.layer) && step_class(report_, step) != "conversion";
  }
  std::string box_class(const ReportStep& step) const {
    return fmt::format("box {}{}", step_class(report_, step), falls_back(step) ? " fallback" : "");
  }
  void draw_binding(Svg& svg, int node, const std::string& name, const std::string& layout, uint32_t tensor,
                    bool input) const;
  std::vector<Band> bands() const;

  const ProgramReport& report_;
  std::string name_;
  const PictureOptions& options_;
  std::vector<Link> links_;
  GraphLayout layout_;
  double left_ = 0;
  const std::set<uint32_t> fallen_ = layers_that_fall_back(report_);
};

void GraphPicture::collect_links() {
  std::map<std::pair<int, int>, size_t> known;
  for (const ProgramReport::Edge& edge : report_.edges()) {
    const int from = edge.from < 0 ? -1 - edge.from : inputs() + edge.from, to = inputs() + int(edge.to);
    const auto [found, made] = known.try_emplace({from, to}, links_.size());
    if (made) links_.push_back({.from = from, .to = to, .tensors = {}});
    auto& tensors = links_[found->second].tensors;
    const std::pair<uint32_t, uint32_t> pair = {edge.written, edge.read};
    if (std::ranges::find(tensors, pair) == tensors.end()) tensors.push_back(pair);
  }
}

void GraphPicture::require_size() const {
  const std::string place = name_, remedy = "nacre inspect lists its steps and edges without a picture";
  if (size_t(steps()) > kMostPictureSteps)
    throw Error(
        kUnsupported, place,
        fmt::format("a picture of {} steps would be too large, {} are drawn at most", steps(), kMostPictureSteps),
        remedy);
  std::vector<LayoutEdge> edges;
  for (const Link& link : links_) edges.push_back({link.from, link.to});
  if (const size_t lanes = lane_count(node_count(), edges); lanes > kMostPictureLanes)
    throw Error(
        kUnsupported, place,
        fmt::format("its edges pass {} rows in all, a picture can hold {}", grouped(lanes), grouped(kMostPictureLanes)),
        remedy);
}

// Returns the x to which a link goes from its upper box, or from which it comes to its lower box.
double GraphPicture::first_aim(size_t link, bool leaving) const {
  const std::vector<double>& lanes = layout_.lanes[link];
  if (!lanes.empty()) return left_ + (leaving ? lanes.front() : lanes.back());
  return middle(leaving ? links_[link].to : links_[link].from);
}

// Chooses where links meet a box: in the order of the x of their other ends, a straight one in the middle.
void GraphPicture::choose_ports(int node, bool leaving) {
  std::map<double, std::vector<size_t>> by_aim;
  for (size_t i = 0; i < links_.size(); ++i)
    if ((leaving ? links_[i].from : links_[i].to) == node) by_aim[first_aim(i, leaving)].push_back(i);
  const double reach = kBoxWidth * kPortReach,
               least = std::min(14.0, 2 * reach / double(std::max<size_t>(1, by_aim.size())));
  std::vector<double> wanted, weight;
  for (const auto& [aim, unused] : by_aim) {
    wanted.push_back(std::clamp(aim, middle(node) - reach, middle(node) + reach));
    weight.push_back(aim == middle(node) ? 1000 : 1);
  }
  const std::vector<double> ports = spread(wanted, std::vector<double>(wanted.size(), least), weight);
  size_t i = 0;
  for (const auto& [unused, links] : by_aim) {
    for (const size_t link : links) (leaving ? links_[link].leaves : links_[link].arrives) = ports[i];
    ++i;
  }
}

void GraphPicture::choose_ports() {
  for (int node = 0; node < node_count(); ++node) {
    choose_ports(node, true);
    choose_ports(node, false);
  }
}

void GraphPicture::draw_link(Svg& svg, size_t index) const {
  const Link& link = links_[index];
  std::string title;
  for (const auto& [written, read] : link.tensors) {
    title += (title.empty() ? "" : "\n\n") + tensor_title(report_, written);
    if (read != written)
      title += fmt::format("\nread as {} {}", shown_name(report_.loaded().tensor_name(read)), report_.shape_text(read));
  }
  double x = link.leaves, y = row_top(layout_.row[size_t(link.from)]) + kBoxHeight;
  std::string data = fmt::format("M{} {}", svg_number(x), svg_number(y));
  const auto curve = [&](double to_x, double to_y) {
    const double half = (to_y - y) / 2;
    data += fmt::format("C{} {} {} {} {} {}", svg_number(x), svg_number(y + half), svg_number(to_x),
                        svg_number(to_y - half), svg_number(to_x), svg_number(to_y));
    x = to_x;
    y = to_y;
  };
  int row = layout_.row[size_t(link.from)];
  for (const double lane : layout_.lanes[index]) {
    curve(left_ + lane, row_top(++row));
    y += kBoxHeight;
    data += fmt::format("V{}", svg_number(y));
  }
  curve(link.arrives, row_top(row + 1) - 1);
  svg.open_group(title);
  svg.path(data, "hit");
  svg.path(data, "edge", options_.arrow);
  svg.close();
}

// Labels each tensor's shape once, where it is written. If it is read in another shape, that is labelled too.
void GraphPicture::draw_labels(Svg& svg) const {
  std::set<uint32_t> named;
  for (const bool straight : {true, false}) {
    for (size_t i = 0; i < links_.size(); ++i) {
      const Link& link = links_[i];
      if (layout_.lanes[i].empty() != straight) continue;
      const auto [written, read] = link.tensors.front();
      const double y = row_top(layout_.row[size_t(link.from)]) + kBoxHeight;
      const std::string more = link.tensors.size() > 1 ? fmt::format(" +{}", link.tensors.size() - 1) : "";
      const bool rightwards = link.leaves > middle(link.from) + 1;  // the label stands on the other side of the line
      if (named.insert(written).second)
        svg.text(link.leaves + (rightwards ? -6 : 5), y + 14, short_shape(report_, written) + more,
                 rightwards ? "shape end" : "shape");
      const TensorRecord &w = report_.tensor(written), &r = report_.tensor(read);
      if (w.rank != r.rank || !std::equal(w.dims, w.dims + w.rank, r.dims))
        svg.text(link.arrives + 7, row_top(layout_.row[size_t(link.to)]) - 6, "as " + short_shape(report_, read),
                 "shape");
    }
  }
}

std::string step_title(const ProgramReport& report, const ReportStep& step) {
  std::string title = fmt::format("step {}: {}", step.index, step.op_name);
  if (step.layer != kNoIndex) {
    const ReportLayer& layer = report.layers()[step.layer];
    title += fmt::format("\nlayer {} ({}), {}", shown_name(layer.name), shown_name(layer.source_op),
                         policy_name(layer.policy));
  }
  if (step.rounding != Rounding::kNone) title += fmt::format("\nrounding {}", name_of(step.rounding));
  if (const std::string words = report.summary(step); !words.empty()) title += "\n" + words;
  for (const ReportOperand& operand : step.operands) {
    if (operand.tensor == kNoIndex) continue;
    const TensorRecord& r = report.tensor(operand.tensor);
    title += fmt::format("\n{} {}: {} {}, {} bytes, {}", operand.role == Role::kIn ? "in" : "out", operand.slot,
                         name_of(r.element), report.shape_text(operand.tensor), grouped(r.bytes), name_of(r.region));
  }
  if (step.multiply_accumulates > 0) title += fmt::format("\n{} MACs", grouped(step.multiply_accumulates));
  return title;
}

void GraphPicture::draw_step(Svg& svg, const ReportStep& step) const {
  constexpr double kInset = 9;
  const Rectangle r = box(inputs() + int(step.index));
  const double inner = kBoxWidth - 2 * kInset;
  const std::string layer = step.layer == kNoIndex ? "" : shown_name(report_.layers()[step.layer].name);
  const std::string work = step.multiply_accumulates > 0 ? short_count(step.multiply_accumulates) + " MAC" : "";
  const std::string number = std::to_string(step.index), words = report_.summary(step);
  const double after_number = text_width(number) * kSmallFont + 7;
  const std::string policy = step.layer == kNoIndex ? "" : short_policy(report_.layers()[step.layer].policy);
  const double policy_width = text_width(policy) * kSmallFont + 8;
  if (options_.link.empty()) {
    svg.open_group(step_title(report_, step));
  } else {
    const std::string tensor = step.output() == kNoIndex ? "" : shown_name(report_.loaded().tensor_name(step.output()));
    svg.open_link(options_.link + number, step_title(report_, step),
                  fmt::format("step {}: {}{}{}", number, step.op_name, layer.empty() ? "" : ", layer " + layer,
                              policy.empty() ? "" : ", " + policy),
                  fmt::format("{} {} {} {}", step.op_name, layer, policy, tensor));
  }
  svg.rectangle(r, box_class(step), 5);
  svg.text(r.x + kInset, r.y + 18, number, "layer");
  svg.text(r.x + kInset + after_number, r.y + 18,
           fit(step.op_name, inner - after_number - text_width(work) * kSmallFont - 6, kOpFont * kBold), "op");
  if (!work.empty()) svg.text(r.x + kBoxWidth - kInset, r.y + 18, work, "work");
  if (!words.empty()) svg.text(r.x + kInset, r.y + 31, fit(words, inner, kSmallFont), "words");
  const double last = r.y + (words.empty() ? 33 : 43.5);
  svg.text(r.x + kInset, last, fit(layer, inner - policy_width, kSmallFont), "layer");
  if (!policy.empty()) svg.text(r.x + kBoxWidth - kInset, last, policy, "layer end");
  if (options_.link.empty()) svg.close();
  else svg.close_link();
}

void GraphPicture::draw_binding(Svg& svg, int node, const std::string& name, const std::string& layout, uint32_t tensor,
                                bool input) const {
  const Rectangle r = box(node);
  std::string words = layout;
  if (const std::optional<Scales> scales = report_.loaded().scales(tensor))
    words += fmt::format("{}scale {}, zero {}", words.empty() ? "" : ", ", scales->scale[0], scales->zero[0]);
  svg.open_group(fmt::format("{} {}\n{}", input ? "input" : "output", shown_name(name), tensor_title(report_, tensor)));
  svg.rectangle(r, "box io", kBoxHeight / 2);
  svg.text(r.x + kBoxWidth / 2, r.y + (words.empty() ? 29 : 22),
           fit((input ? "input " : "output ") + name, kBoxWidth - 40, kOpFont * kBold), "op mid");
  if (!words.empty()) svg.text(r.x + kBoxWidth / 2, r.y + 37, fit(words, kBoxWidth - 30, kSmallFont), "words mid");
  svg.close();
}

void GraphPicture::draw_header(Svg& svg, double width) const {
  const Statistics s = statistics(report_.loaded(), report_.program());
  svg.text(kMargin, 38, fit(name_, width - 2 * kMargin, 20 * kBold), "title");
  const std::string line =
      fmt::format("{} of {} \u00B7 {} MAC \u00B7 weights {} bytes \u00B7 arena {} bytes{}", counted(s.steps, "step"),
                  counted(s.layers, "layer"), grouped(s.multiply_accumulates), grouped(s.weight_bytes),
                  grouped(s.arena_bytes), s.batch > 1 ? fmt::format(" \u00B7 batch {}", s.batch) : "");
  svg.text(kMargin, 58, line, "subtitle");
  std::map<std::string, std::string> kinds;  // words -> class
  for (const ReportStep& step : report_.steps()) {
    kinds.emplace(step_class_words(report_, step), step_class(report_, step));
    if (falls_back(step)) kinds.emplace("has a precision fallback", "fallback");
  }
  double x = kMargin, y = 74;
  for (const auto& [words, css] : kinds) {
    const double needed = 24 + text_width(words) * kSmallFont + 22;
    if (x > kMargin && x + needed > width - kMargin) x = kMargin, y += 17;
    svg.rectangle({x, y, 18, 12}, fmt::format("box {}", css), 3);
    svg.text(x + 24, y + 10, words, "words");
    x += needed;
  }
}

std::vector<Band> GraphPicture::bands() const {
  std::vector<Band> bands(static_cast<size_t>(steps()));
  for (size_t first = 0; first < bands.size();) {
    const int row = layout_.row[size_t(inputs()) + first];
    size_t end = first;
    while (end < bands.size() && layout_.row[size_t(inputs()) + end] == row) ++end;
    const double height = (kBoxHeight + kRowGap) / double(end - first), top = row_top(row) - kRowGap / 2;
    for (size_t i = first; i < end; ++i) bands[i] = {top + double(i - first) * height, height};
    first = end;
  }
  return bands;
}

std::string GraphPicture::draw() {
  const double panel_x = left_ + std::max(layout_.width, kLeastGraph) + kPanelGap;
  const double width = panel_x + kMemoryPanelWidth + kMargin, height = row_top(layout_.rows) - kRowGap + kMargin + 12;
  Svg svg(width, height, options_.style ? picture_style() : "",
          {options_.label.empty() ? name_ : options_.label, options_.link.empty() ? "img" : "group", "picture"});
  svg.raw(arrow_head(options_.arrow));
  svg.rectangle({0, 0, width, height}, "page");
  draw_header(svg, width);
  draw_memory(svg, report_, bands(), panel_x);
  for (size_t i = 0; i < links_.size(); ++i) draw_link(svg, i);
  const ProgramNames& names = report_.names();
  const ProgramView& view = report_.view();
  for (size_t i = 0; i < view.inputs.size(); ++i)
    draw_binding(svg, int(i), names.inputs[i], names.input_layouts[i], view.inputs[i], true);
  for (const ReportStep& step : report_.steps()) draw_step(svg, step);
  for (size_t i = 0; i < view.outputs.size(); ++i)
    draw_binding(svg, inputs() + steps() + int(i), names.outputs[i], names.output_layouts[i], view.outputs[i], false);
  draw_labels(svg);
  return svg.finish();
}

}  // namespace

std::string picture(const ProgramReport& report, const std::string& name, const PictureOptions& options) {
  return GraphPicture(report, name, options).draw();
}

}  // namespace nacre::tools
