#include "tools/report/picture/style.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "tools/base/format.h"
#include "tools/base/names.h"
#include "tools/base/table.h"
#include "tools/policies/policy_name.h"
#include "tools/report/picture/svg.h"

namespace nacre::tools {

namespace {

// Every rule is scoped to pictures, because a style sheet in a page applies to the whole page.
constexpr const char* kPictureStyle =
    ".picture text { font-family: Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; "
    "font-size: 10.5px; fill: #333 }\n"
    ".picture .page { fill: #fff }\n"
    ".picture .title { font-size: 20px; font-weight: bold; fill: #111 }\n"
    ".picture .subtitle { font-size: 12px; fill: #555 }\n"
    ".picture .op { font-size: 13px; font-weight: bold; fill: #111 }\n"
    ".picture .work { fill: #444; text-anchor: end }\n"
    ".picture .layer { fill: #444 }\n"
    ".picture .mid { text-anchor: middle }\n"
    ".picture .end { text-anchor: end }\n"
    ".picture .shape { fill: #1a1a1a; font-size: 10px; paint-order: stroke; stroke: #fff; stroke-width: "
    "3px; stroke-linejoin: round }\n"
    ".picture .edge { fill: none; stroke: #666; stroke-width: 1.3 }\n"
    ".picture .hit { fill: none; stroke: #fff; stroke-width: 7; stroke-opacity: 0.75 }\n"
    ".picture .head { fill: #666 }\n"
    ".picture .box { stroke-width: 1.3; fill: #f0f0f0; stroke: #999 }\n"
    ".picture .io { fill: #fff; stroke: #444 }\n"
    ".picture .float64 { fill: #dfe0fb; stroke: #5d62c4 }\n"
    ".picture .float32 { fill: #dceaf9; stroke: #5a8bc6 }\n"
    ".picture .float16 { fill: #d9f2f4; stroke: #3f9aa5 }\n"
    ".picture .bfloat16 { fill: #d5f3e6; stroke: #35976f }\n"
    ".picture .mixed { fill: #eaf7f7; stroke: #3f9aa5; stroke-width: 2.4 }\n"
    ".picture .static { fill: #dff1d6; stroke: #58a055 }\n"
    ".picture .dynamic { fill: #fdf1cd; stroke: #c2952c }\n"
    ".picture .weights { fill: #fce4d3; stroke: #cf7f3d }\n"
    ".picture .int4 { fill: #fad9d5; stroke: #c4584a }\n"
    ".picture .float8 { fill: #f9deea; stroke: #c25d8d }\n"
    ".picture .conversion { fill: #e9e3f6; stroke: #8a6fc0 }\n"
    ".picture .band { fill: #f4f5f7 }\n"
    ".picture .peak { fill: #fdeceb }\n"
    ".picture .fallback { stroke-dasharray: 5 3; stroke: #d0021b; stroke-width: 1.8 }\n"
    ".picture .frame { fill: none; stroke: #bbb }\n"
    ".picture .tensor { stroke-width: 1 }\n"
    ".picture .of-reals { fill: #bcd6f2; stroke: #3f74b5 }\n"
    ".picture .of-int8 { fill: #bfe3bd; stroke: #3f8a3c }\n"
    ".picture .of-integers { fill: #f6dc9c; stroke: #a87a16 }\n"
    ".picture .of-others { fill: #dcd3ee; stroke: #7458ad }\n"
    ".picture g:hover .edge { stroke: #d0021b; stroke-width: 2.2 }\n"
    ".picture g:hover .box, .picture a:hover .box, .picture g:hover .tensor { stroke: #d0021b }\n"
    ".picture a.found .box { stroke: #b35900; stroke-width: 3.5 }\n"
    ".picture a.chosen .box { stroke: #1a5fb4; stroke-width: 4 }\n"
    ".picture a:focus-visible { outline: none }\n"
    ".picture a:focus-visible .box { stroke: #1a5fb4; stroke-width: 4; stroke-dasharray: 8 3 }\n"
    "@media screen and (prefers-color-scheme: dark) {\n"
    "  .picture text { fill: #d5d8de }\n"
    "  .picture .page { fill: #14161a }\n"
    "  .picture .title, .picture .op { fill: #f2f4f8 }\n"
    "  .picture .subtitle, .picture .work, .picture .layer { fill: #b4bbc7 }\n"
    "  .picture .shape { fill: #e2e5ea; stroke: #14161a }\n"
    "  .picture .edge { stroke: #98a1b0 }\n"
    "  .picture .hit { stroke: #14161a }\n"
    "  .picture .head { fill: #98a1b0 }\n"
    "  .picture .box { fill: #2b2f36; stroke: #7c8592 }\n"
    "  .picture .io { fill: #14161a; stroke: #b4bbc7 }\n"
    "  .picture .float64 { fill: #27294b; stroke: #8b90f0 }\n"
    "  .picture .float32 { fill: #1c3149; stroke: #6fa3dd }\n"
    "  .picture .float16 { fill: #17383c; stroke: #55b5c0 }\n"
    "  .picture .bfloat16 { fill: #163b2d; stroke: #4cba8d }\n"
    "  .picture .mixed { fill: #1d3436; stroke: #55b5c0 }\n"
    "  .picture .static { fill: #22391f; stroke: #76bf72 }\n"
    "  .picture .dynamic { fill: #40351a; stroke: #d8ac45 }\n"
    "  .picture .weights { fill: #452d1b; stroke: #e09455 }\n"
    "  .picture .int4 { fill: #47241f; stroke: #e07a6c }\n"
    "  .picture .float8 { fill: #422433; stroke: #dd7fab }\n"
    "  .picture .conversion { fill: #312949; stroke: #a98fdf }\n"
    "  .picture .band { fill: #1c1f25 }\n"
    "  .picture .peak { fill: #45221f }\n"
    "  .picture .fallback { stroke: #ff7a70 }\n"
    "  .picture .frame { stroke: #555d69 }\n"
    "  .picture .of-reals { fill: #254668; stroke: #7fb0e8 }\n"
    "  .picture .of-int8 { fill: #274d26; stroke: #7cc878 }\n"
    "  .picture .of-integers { fill: #57441a; stroke: #e0b551 }\n"
    "  .picture .of-others { fill: #3d335a; stroke: #b39ce0 }\n"
    "  .picture g:hover .edge { stroke: #ff7a70 }\n"
    "  .picture g:hover .box, .picture a:hover .box, .picture g:hover .tensor { stroke: #ff7a70 }\n"
    "  .picture a.found .box { stroke: #ffb05c }\n"
    "  .picture a.chosen .box, .picture a:focus-visible .box { stroke: #8ab4f8 }\n"
    "}\n";

}  // namespace

const char* picture_style() { return kPictureStyle; }

std::string arrow_head(const std::string& id) {
  return fmt::format(
      "<defs><marker id=\"{}\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"6.5\" "
      "markerHeight=\"6.5\" orient=\"auto\">"
      "<path class=\"head\" d=\"M0 0.5L8 4L0 7.5z\"/></marker></defs>",
      id);
}

std::string fit(const std::string& text, double width, double font_size) {
  if (text_width(text) * font_size <= width) return text;
  constexpr double kLeastWidth = 0.36;  // of a character by text_width; bounds the work, because names may be very long
  size_t most = std::min(characters(text), size_t(width / (kLeastWidth * font_size)) + 1);
  while (most > 1 && text_width(shorten(text, most)) * font_size > width) --most;
  return shorten(text, most);
}

std::string shown_name(const std::string& name) { return shorten(name, kMostShownName); }

std::string short_policy(const Policy& policy) {
  const std::string name = policy_name(policy);
  return name.substr(0, name.find("_from_"));
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
  std::string title = fmt::format("{}\n{} {}, {} bytes", shown_name(report.loaded().tensor_name(tensor)),
                                  name_of(r.element), report.shape_text(tensor), grouped(r.bytes));
  if (r.region == Region::kArena)
    title += fmt::format("\narena bytes {} to {}, steps {} to {}", grouped(report.location(tensor).offset),
                         grouped(report.location(tensor).offset + r.bytes), r.first_step, r.last_step);
  if (r.alias_of != kNoIndex) title += fmt::format("\npart of {}", shown_name(report.loaded().tensor_name(r.alias_of)));
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
    case Quantization::kInt4Weights: return "int4";
    case Quantization::kFloat8:
    case Quantization::kFloat8Current: return "float8";
    default: return "weights";
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
