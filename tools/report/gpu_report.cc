#include "tools/report/gpu_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/base/names.h"
#include "tools/base/table.h"
#include "tools/evaluate/gpu_advice.h"
#include "tools/policies/policy_name.h"

namespace nacre::tools {
namespace {

constexpr const char* kEstimated =
    "estimated, not measured: by the rates of datasheets, products on Tensor Cores, kernels in a CUDA graph";

std::string us_text(double us) { return us == 0 ? "-" : fmt::format("{:.1f}", us); }

std::string product_text(const Product& p) {
  const std::string size = fmt::format("{} x {} x {}", p.m, p.n, p.k);
  return p.count == 1 ? size : fmt::format("{} times {}", p.count, size);
}

bool is_padded(const GpuLayer& layer) {
  const Product &p = layer.product, &padded = layer.padded;
  return p.m != padded.m || p.n != padded.n || p.k != padded.k;
}

Json product_json(const Product& p) { return {{"rows", p.m}, {"features", p.n}, {"terms", p.k}, {"count", p.count}}; }

std::vector<std::string> slower_in_float8(const GpuEstimate& estimate) {
  std::vector<std::string> names;
  for (const GpuLayer& layer : estimate.layers)
    if (layer.float8_is_slower()) names.push_back(layer.name);
  return names;
}

std::string slower_text(const GpuEstimate& estimate) {
  if (estimate.gpu->float8 == 0) return "";
  const char* const half = name_of(half_type(*estimate.gpu));
  const std::vector<std::string> names = slower_in_float8(estimate);
  if (names.empty()) return fmt::format("float8  slower than {} in no layer\n", half);
  if (names.size() == estimate.layers.size()) return fmt::format("float8  slower than {} in every layer\n", half);
  return fmt::format("float8  slower than {} in {} of {} layers: {}\n", half, names.size(), estimate.layers.size(),
                     fmt::join(names, ", "));
}

}  // namespace

std::string gpu_text(const GpuEstimate& estimate, size_t width) {
  const bool float8 = estimate.gpu->float8 > 0;
  std::vector<Column> columns = {{"layer", Align::kLeft, 22, true},
                                 {"op", Align::kLeft, 10},
                                 {"rows x features x terms", Align::kLeft},
                                 {"padded", Align::kLeft},
                                 {"policy", Align::kLeft},
                                 {"us", Align::kRight},
                                 {name_of(half_type(*estimate.gpu)), Align::kRight}};
  if (float8) columns.push_back({"float8", Align::kRight});
  Table table(columns);
  for (const GpuLayer& layer : estimate.layers) {
    std::vector<std::string> cells = {layer.name,
                                      find_rule(layer.op)->name,
                                      product_text(layer.product),
                                      is_padded(layer) ? product_text(layer.padded) : "",
                                      policy_name(layer.policy),
                                      us_text(layer.policy_us),
                                      us_text(layer.half_us)};
    if (float8) cells.push_back(us_text(layer.float8_us));
    table.add(std::move(cells));
  }
  std::string text = fmt::format("{} ({}), {}\n", estimate.gpu->target, estimate.gpu->card, kEstimated);
  if (!estimate.layers.empty()) text += "\n" + table.text(width);
  text += '\n';
  if (estimate.other_steps > 0)
    text += fmt::format("others  {} other steps take {} us\n", estimate.other_steps, us_text(estimate.other_us));
  if (!estimate.layers.empty()) text += slower_text(estimate);
  for (const GpuLayer& layer : estimate.layers)
    for (const std::string& sentence : layer.advice) text += fmt::format("advice  {}: {}\n", layer.name, sentence);
  return text + "place   " + gpu_verdict(estimate) + "\n";
}

Json gpu_json(const GpuEstimate& estimate) {
  const auto us_json = [](double us) { return us == 0 ? Json() : Json(us); };
  Json layers = Json::array();
  for (const GpuLayer& layer : estimate.layers) {
    layers.push_back({{"layer", layer.name},
                      {"step", layer.step},
                      {"op", find_rule(layer.op)->name},
                      {"product", product_json(layer.product)},
                      {"padded", is_padded(layer) ? product_json(layer.padded) : Json()},
                      {"passes", layer.passes},
                      {"policy", policy_name(layer.policy)},
                      {"policy_us", us_json(layer.policy_us)},
                      {"half_us", layer.half_us},
                      {"float8_us", us_json(layer.float8_us)},
                      {"slower_in_float8", layer.float8_is_slower()},
                      {"advice", layer.advice}});
  }
  return {{"target", estimate.gpu->target},
          {"card", estimate.gpu->card},
          {"how", kEstimated},
          {"trains", estimate.trains},
          {"batch", estimate.batch},
          {"half_type", name_of(half_type(*estimate.gpu))},
          {"layers", layers},
          {"other_steps", estimate.other_steps},
          {"other_us", estimate.other_us},
          {"copies_us", estimate.copies_us},
          {"operations", estimate.operations},
          {"gpu_us", estimate.gpu_us},
          {"host_us", estimate.host_us},
          {"place", estimate.on_host() ? "host" : "gpu"},
          {"verdict", gpu_verdict(estimate)}};
}

}  // namespace nacre::tools
