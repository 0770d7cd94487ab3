#include "tools/report/picture_style.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/table.h"
#include "tools/policies/policy_name.h"
#include "tools/report/svg.h"

namespace nacre::tools {

namespace {

constexpr const char* kPictureStyle =
    "text { font-family: Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; "
    "font-size: 10.5px; fill: #333 }\n"
    ".page { fill: #fff }\n"
    ".title { font-size: 20px; font-weight: bold; fill: #111 }\n"
    ".subtitle { font-size: 12px; fill: #555 }\n"
    ".op { font-size: 13px; font-weight: bold; fill: #111 }\n"
    ".work { fill: #555; text-anchor: end }\n"
    ".layer { fill: #777 }\n"
    ".mid { text-anchor: middle }\n"
    ".end { text-anchor: end }\n"
    ".shape { fill: #1a1a1a; font-size: 10px; paint-order: stroke; stroke: #fff; stroke-width: "
    "3px; stroke-linejoin: round }\n"
    ".edge { fill: none; stroke: #666; stroke-width: 1.3; marker-end: url(#arrow) }\n"
    ".hit { fill: none; stroke: #fff; stroke-width: 7; stroke-opacity: 0.75 }\n"
    "g:hover .edge { stroke: #d0021b; stroke-width: 2.2 }\n"
    "g:hover .box, g:hover .tensor { stroke: #d0021b }\n"
    ".box { stroke-width: 1.3; fill: #f0f0f0; stroke: #999 }\n"
    ".io { fill: #fff; stroke: #444 }\n"
    ".float64 { fill: #dfe0fb; stroke: #5d62c4 }\n"
    ".float32 { fill: #dceaf9; stroke: #5a8bc6 }\n"
    ".float16 { fill: #d9f2f4; stroke: #3f9aa5 }\n"
    ".bfloat16 { fill: #d5f3e6; stroke: #35976f }\n"
    ".mixed { fill: #eaf7f7; stroke: #3f9aa5; stroke-width: 2.4 }\n"
    ".static { fill: #dff1d6; stroke: #58a055 }\n"
    ".dynamic { fill: #fdf1cd; stroke: #c2952c }\n"
    ".weights { fill: #fce4d3; stroke: #cf7f3d }\n"
    ".int4 { fill: #fad9d5; stroke: #c4584a }\n"
    ".float8 { fill: #f9deea; stroke: #c25d8d }\n"
    ".conversion { fill: #e9e3f6; stroke: #8a6fc0 }\n"
    ".band { fill: #f7f7f8 }\n"
    ".peak { fill: #fdeceb }\n"
    ".fallback { stroke-dasharray: 5 3; stroke: #d0021b; stroke-width: 1.8 }\n"
    ".frame { fill: none; stroke: #bbb }\n"
    ".tensor { stroke-width: 1 }\n";

// `text` with every "#arrow" and id "arrow" as another name.
std::string renamed(std::string text, const std::string& arrow) {
  for (const std::string before : {"url(#", "id=\""})
    for (size_t at = text.find(before + "arrow"); at != std::string::npos; at = text.find(before + "arrow", at + 1))
      text.replace(at + before.size(), 5, arrow);
  return text;
}

}  // namespace

std::string picture_style(const std::string& arrow) { return renamed(kPictureStyle, arrow); }

std::string arrow_head(const std::string& arrow) {
  return renamed(
      "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6.5\" "
      "markerHeight=\"6.5\" orient=\"auto\">"
      "<path d=\"M0 0.5L8 4L0 7.5z\" fill=\"#666\"/></marker></defs>",
      arrow);
}

std::string fit(const std::string& text, double width, double font_size) {
  if (text_width(text) * font_size <= width) return text;
  size_t most = characters(text);
  while (most > 1 && text_width(shorten(text, most)) * font_size > width) --most;
  return shorten(text, most);
}

std::string short_count(uint64_t count) {
  constexpr struct {
    double unit;
    const char* name;
  } kUnits[] = {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}};
  const auto number = double(count);
  for (const auto& [unit, name] : kUnits)
    if (number >= unit) return fmt::format("{:.3g}{}", number / unit, name);
  return std::to_string(count);
}

std::string short_shape(const ProgramReport& report, uint32_t tensor) {
  const TensorRecord& r = report.tensor(tensor);
  return fmt::format("{} {}", fmt::join(r.dims, r.dims + r.rank, "\u00D7"), name_of(r.element));
}

std::string tensor_title(const ProgramReport& report, uint32_t tensor) {
  const TensorRecord& r = report.tensor(tensor);
  std::string title = fmt::format("{}\n{} {}, {} bytes", report.loaded().tensor_name(tensor), name_of(r.element),
                                  report.shape_text(tensor), grouped(r.bytes));
  if (r.region == Region::kArena)
    title += fmt::format("\narena bytes {} to {}, steps {} to {}", grouped(report.location(tensor).offset),
                         grouped(report.location(tensor).offset + r.bytes), r.first_step, r.last_step);
  if (r.alias_of != kNoIndex) title += fmt::format("\npart of {}", report.loaded().tensor_name(r.alias_of));
  if (const std::optional<Scales> scales = report.loaded().scales(tensor))
    title += fmt::format("\nreal = {} * (code - {}){}", scales->scale[0], scales->zero[0],
                         scales->scale.size() > 1 ? fmt::format(", and {} more", scales->scale.size() - 1) : "");
  return title;
}

namespace {

bool converts(Op op) {
  return op == Op::kQuantize || op == Op::kDequantize || op == Op::kRequantize || op == Op::kCast ||
         op == Op::kDynamicQuantize;
}

std::string policy_class(const Policy& policy) {
  switch (policy.quantization) {
    case Quantization::kNone:
      if (policy.compute == ElementType::kInt8) return "static";
      return policy.variable == policy.compute ? name_of(policy.compute) : "mixed";
    case Quantization::kInt8Dynamic: return "dynamic";
    case Quantization::kInt8Static:
    case Quantization::kInt8Full: return "static";
    case Quantization::kInt8Weights: return "weights";
    case Quantization::kInt4Weights: return "int4";
    default: return "float8";
  }
}

}  // namespace

std::string step_class(const ProgramReport& report, const ReportStep& step) {
  if (converts(step.op)) return "conversion";
  return step.layer == kNoIndex ? "plain" : policy_class(report.layers()[step.layer].policy);
}

std::string step_class_words(const ProgramReport& report, const ReportStep& step) {
  if (converts(step.op)) return "conversion";
  return step.layer == kNoIndex ? "of no layer" : policy_name(report.layers()[step.layer].policy);
}

std::set<uint32_t> layers_that_fall_back(const ProgramReport& report) {
  std::set<uint32_t> layers;
  for (const std::string& line : fallbacks_of(report.loaded()))
    for (uint32_t i = 0; i < report.layers().size(); ++i)
      if (line.starts_with(report.layers()[i].name + " (")) layers.insert(i);
  return layers;
}

std::vector<std::string> fallbacks_of(const LoadedModel& model) {
  std::vector<std::string> lines;
  for (const auto& [key, value] : model.metadata()) {
    if (key != "fallbacks") continue;
    std::istringstream text(value);
    for (std::string line; std::getline(text, line);)
      if (!line.empty()) lines.push_back(line);
  }
  return lines;
}

}  // namespace nacre::tools
