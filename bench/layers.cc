#include "bench/layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bench/one_layer.h"
#include "bench/report.h"
#include "tools/base/error.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/roof.h"

namespace nacre::bench {
namespace {

constexpr std::pair<const char*, const char*> kPolicies[] = {
    {"float32", "float32"},           {"float16", "float16"},
    {"bfloat16", "bfloat16"},         {"int8_static", "int8/static_from_float32"},
    {"int8", "int8_from_float32"},    {"int8_weights", "int8/weights_from_float32"},
    {"int4", "int4/32_from_float32"}, {"float8", "float8_from_float32"}};
constexpr size_t kEverywhere = 4;  // this many of the policies also change ops that are no products

x86::Tier tier_of(const std::string& set) {
  for (uint32_t i = 0; i < uint32_t(x86::Tier::kCount); ++i)
    if (set == x86::name(x86::Tier(i))) return x86::Tier(i);
  return x86::Tier::kPortable;  // the reference is compared with the roof of plain C++
}

struct Bound {
  std::unique_ptr<OneLayer> layer;
  std::unique_ptr<tools::BoundProgram> program;
  std::string kernel, wrong;  // wrong is "" if the outputs are the reference's
};

Bound bound_layer(const Shape& shape, const std::string& policy, const std::string& set) {
  Bound bound;
  try {
    bound.layer = std::make_unique<OneLayer>(shape, policy);
    bound.program = bound.layer->bind(tools::port_named(set));
    bound.kernel = tools::name_of_kernel(bound.program->program().kernel(bound.layer->step()));
    if (const double apart = bound.layer->difference(*bound.program);
        set != "reference" && !(apart <= tolerance_of(bound.layer->work().compute)))
      bound.wrong = fmt::format("differs from the reference by {:.2g} of the largest magnitude", apart);
  } catch (const tools::Error& error) {
    bound.wrong = error.what();
  }
  return bound;
}

void time(benchmark::State& state, const Bound& bound, x86::Tier tier, bool product) {
  if (!bound.wrong.empty()) return state.SkipWithError(bound.wrong.c_str());
  const Program& program = bound.program->program();
  const uint32_t step = bound.layer->step();
  for (auto _ : state) {
    if (const Status status = program.run(step, step + 1, 0); !status.ok())
      return state.SkipWithError(sentence(status.code));
    benchmark::ClobberMemory();
  }
  state.SetLabel(bound.kernel);
  const tools::StepWork work = bound.layer->work();
  if (product) set_rate(state, "op/s", work.operations);
  else set_rate(state, "B/s", work.bytes);
  set_rate(state, kRoof, tools::least_seconds(tier, work));
}

}  // namespace

size_t add_layers(const std::vector<std::string>& sets) {
  size_t count = 0;
  // Keeps only the layer that is being timed.
  const auto current = std::make_shared<std::pair<std::string, Bound>>();
  for (const Shape& shape : read_shapes(std::string(NACRE_ROOT) + "/bench/shapes.json")) {
    for (size_t p = 0; p < (shape.is_product() ? std::size(kPolicies) : kEverywhere); ++p)
      for (const std::string& set : sets) {
        const std::string path =
            fmt::format("layer/{}/{}/{}/{}/{}", shape.op, kPolicies[p].first, set, shape.networks, shape.text());
        ++count;
        add(path, [=](benchmark::State& state) {
          if (current->first != path) *current = {path, bound_layer(shape, kPolicies[p].second, set)};
          time(state, current->second, tier_of(set), shape.is_product());
        });
      }
  }
  return count;
}

}  // namespace nacre::bench
