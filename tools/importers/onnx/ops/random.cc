// Imports random numbers. ONNX defines their distribution but not the numbers. Here they are a function of the node's
// seed, the node, the run and the element (engine/ops/random.h), so every run draws other numbers.
//
//   u, v uniform in [0, 1), drawn independently
//   RandomUniform   y = low + (high - low) u
//   RandomNormal    y = mean + scale sqrt(-2 ln(1 - u)) cos(2 pi v)    Box & Muller 1958, Ann. Math. Statist. 29
//   Bernoulli       y = 1 if u < x, else 0
//   Multinomial     y = arg max_c (x_c - ln(-ln u_c)), x unnormalized logarithms of probabilities: Gumbel 1954
#include <algorithm>
#include <bit>
#include <numbers>

#include "tools/importers/onnx/formula.h"
#include "tools/importers/onnx/operators.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

using Ints = Formula::Ints;

bool is_real(const Source& source) { return source.operand(0)->type == ElementType::kFloat32; }

// Returns the value that holds the number of runs so far: an int32 [1], kept from run to run in Region::kStream.
ValueId count_of_runs(Import& import) {
  ValueId& count = import.draws().runs;
  if (count != kNone) return count;
  Value runs;
  runs.name = "random/run";
  runs.type = ElementType::kInt32;
  runs.dims = {1};
  runs.region = Region::kStream;
  return count = import.graph().add(std::move(runs));
}

// Imports RandomUniformLike over [0, 1) as the op random. Formulas make the other random operators from it.
void draw(Import& import, const Source& source) {
  Node node = import.step(Op::kRandom);
  node.inputs = {import.plain(source.operand(0)), count_of_runs(import)};
  set_integer(node, "seed", std::bit_cast<int32_t>(source.real("seed", 0)));
  set_integer(node, "layer", import.draws().steps++);
  import.give_plain(0, import.append(std::move(node), import.output_name()));
}

class Drawn {
 public:
  Drawn(Import& import, const Source& source) : source_(source), f_(import, source) {}

  void uniform(const Term& x) {
    const float low = source_.real("low", 0), high = source_.real("high", 1);
    give(f_("Add", {f_("Mul", {uniform_like(x), f_.number(high - low)}), f_.number(low)}));
  }

  void normal(const Term& x) {
    const Term u = f_("Sub", {f_.number(1), uniform_like(x)});
    const Term radius = f_("Sqrt", {f_("Mul", {f_("Log", {u}), f_.number(-2)})});
    const Term angle = f_("Mul", {uniform_like(x), f_.number(2 * std::numbers::pi_v<float>)});
    const Term y = f_("Mul", {radius, f_("Cos", {angle})});
    const Term scaled = f_("Mul", {y, f_.number(source_.real("scale", 1))});
    give(f_("Add", {scaled, f_.number(source_.real("mean", 0))}));
  }

  void bernoulli() {
    const Term x = f_.input(0), hit = f_("Less", {uniform_like(x), x});
    if (source_.integer("dtype", 0) != 0) return give(hit);
    f_.give(f_("CastLike", {hit, x}));
    f_.run();
  }

  void multinomial() {
    const Ints& dims = source_.operand(0)->dims;
    const int64_t samples = source_.integer("sample_size", 1);
    if (dims.size() != 2) source_.malformed("its operand does not have two axes");
    if (samples < 1 || samples > kMostSamples) source_.malformed("its sample_size is not from 1 to 65,536");
    const Term x = f_.reshape(f_.input(0), {dims[0], 1, dims[1]});
    const Term all = f_("Add", {x, f_.filled({1, samples, 1}, 0)});
    const Term gumbel = f_("Neg", {f_("Log", {f_("Neg", {f_("Log", {uniform_like(all)})})})});
    const Term y = f_("ArgMax", {f_("Add", {all, gumbel})}, {{"axis", int64_t{2}}, {"keepdims", int64_t{0}}});
    f_.give(f_("Cast", {y}, {{"to", source_.integer("dtype", ::onnx::TensorProto::INT32)}}));
    f_.run();
  }

  // Return a term whose shape is the result's: zeros of the shape in the attribute, or the operand as reals.
  Term shape_of_attribute() {
    const Ints dims = source_.integers("shape");
    if (dims.empty()) source_.malformed("has no shape");
    return f_.filled(dims, 0);
  }
  Term shape_of_operand() { return is_real(source_) ? f_.input(0) : f_.to_real(f_.input(0)); }

 private:
  static constexpr int64_t kMostSamples = 65536;

  Term uniform_like(const Term& x) { return f_("RandomUniformLike", {x}, {{"seed", source_.real("seed", 0)}}); }

  void give(const Term& y) {
    const int64_t type = source_.integer("dtype", 0);
    f_.give(type == 0 ? f_("Identity", {y}) : f_("Cast", {y}, {{"to", type}}));
    f_.run();
  }

  const Source& source_;
  Formula f_;
};

void random_uniform(Import& import, const Source& source) {
  Drawn drawn(import, source);
  drawn.uniform(drawn.shape_of_attribute());
}
void random_uniform_like(Import& import, const Source& source) {
  const bool unit = source.real("low", 0) == 0 && source.real("high", 1) == 1;
  if (unit && source.integer("dtype", 0) == 0 && is_real(source)) return draw(import, source);
  Drawn drawn(import, source);
  drawn.uniform(drawn.shape_of_operand());
}
void random_normal(Import& import, const Source& source) {
  Drawn drawn(import, source);
  drawn.normal(drawn.shape_of_attribute());
}
void random_normal_like(Import& import, const Source& source) {
  Drawn drawn(import, source);
  drawn.normal(drawn.shape_of_operand());
}
void bernoulli(Import& import, const Source& source) { Drawn(import, source).bernoulli(); }
void multinomial(Import& import, const Source& source) { Drawn(import, source).multinomial(); }

constexpr OperatorImporter kRandomImporters[] = {
    {"RandomUniform", random_uniform}, {"RandomUniformLike", random_uniform_like},
    {"RandomNormal", random_normal},   {"RandomNormalLike", random_normal_like},
    {"Bernoulli", bernoulli},          {"Multinomial", multinomial}};

}  // namespace

void count_runs(Import& import) {
  Graph& graph = import.graph();
  const ValueId runs = import.draws().runs;
  if (runs == kNone) return;
  const auto whole = [&](const char* name) {
    Value v;
    v.name = name;
    v.type = ElementType::kInt32;
    v.dims = {1};
    return graph.add(std::move(v));
  };
  const ValueId one = graph.constant("random/one", {1}, std::vector<int32_t>{1});
  const ValueId next = whole("random/next"), left = whole("random/stored");
  graph.nodes.push_back(make_step(Op::kAdd, Node(), "random/add", {runs, one}, {next}));
  graph.nodes.push_back(make_step(Op::kStore, Node(), "random/store", {next, runs}, {left}));
}

void judge_draws(Import& import) {
  Graph& graph = import.graph();
  for (const Node& draw : graph.nodes) {
    if (draw.op != Op::kRandom) continue;
    const auto fixed = [&](ValueId id) { return id != kNone && import.value(id).constant(); };
    const bool drops = std::ranges::any_of(graph.nodes, [&](const Node& node) {
      return node.op == Op::kCompare && std::ranges::find(node.inputs, draw.outputs[0]) != node.inputs.end() &&
             std::ranges::any_of(node.inputs, fixed);
    });
    if (drops)
      import.log().note_refusal(
          Error(kUnsupported, draw.name + " (RandomUniformLike)",
                "is the mask of a dropout in several operators: how the network infers without it, the file "
                "does not say",
                "export it for inference, or with dropout in one operator (torch: nn.Dropout)"));
    else graph.log.push_back("training: " + draw.name + ": draws random numbers in inference too, as the file says");
  }
}

std::span<const OperatorImporter> random_importers() { return kRandomImporters; }

}  // namespace nacre::tools::onnx_import
