#include "tools/differentiate/integer/masters.h"

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "tools/base/error.h"
#include "tools/differentiate/trained_codes.h"
#include "tools/graph/matmul_operands.h"

namespace nacre::tools {
namespace {

constexpr int kWeightBits = 24;
constexpr int kBiasRoom = 3, kBiasMost = 16;  // a bias may grow to 2^3 times its size; most bits below its code

class Masters {
 public:
  Masters(Graph& infer, bool derived) : infer_(infer), derived_(derived) {}

  void make(ValueId id, bool bias) {
    const Value codes = infer_.values[size_t(id)];
    if (!codes.constant() || bits_.contains(codes.name))
      throw Error(kUnsupported, infer_.source, codes.name + " is shared by layers: its codes cannot be trained",
                  "train them under int8/static_from_float32 instead of int8/full");
    const std::vector<int64_t> numbers = integers(codes);
    const int bits = bias ? bias_bits(numbers) : kWeightBits;
    Value master = named_value(codes.name + kMaster, ElementType::kInt32, codes.dims, Region::kState);
    master.trainable = true;
    std::vector<int32_t> initial;
    for (const int64_t code : numbers) initial.push_back(int32_t(code * (int64_t{1} << bits)));
    master.initial = as_little_endian(initial);
    const ValueId made = infer_.add(master);
    bits_.emplace(codes.name, bits);
    if (!derived_) return;
    Node round = make_step(Op::kRoundCodes, Node(), master.name + "/round", {made}, {id});
    set_integer(round, "bits", bits);
    rounds_.push_back(std::move(round));
  }

  std::map<std::string, int> finish() {
    infer_.nodes.insert(infer_.nodes.begin(), rounds_.begin(), rounds_.end());
    for (Value& v : infer_.values) {
      if (!bits_.contains(v.name)) continue;
      if (!derived_) v.region = Region::kState, v.initial = v.data;
      v.data = nullptr;
      v.stored = ElementType::kNone;
    }
    return std::move(bits_);
  }

 private:
  static int bias_bits(const std::vector<int64_t>& codes) {
    uint64_t most = 1;
    for (const int64_t code : codes) most = std::max(most, uint64_t(std::abs(code)));
    return std::clamp(31 - kBiasRoom - int(std::bit_width(most)), 0, kBiasMost);
  }

  Graph& infer_;
  bool derived_;
  std::map<std::string, int> bits_;
  std::vector<Node> rounds_;
};

}  // namespace

bool runs_in_int8(const Graph& graph, const Node& node) {
  if (!is_matmul(node.op) || node.inputs.size() <= kScale) return false;
  const auto is_int8 = [&](ValueId id) { return id != kNone && graph.values[size_t(id)].type == ElementType::kInt8; };
  return is_int8(node.inputs[kX]) && is_int8(node.inputs[kW]) && is_int8(node.outputs[0]) &&
         graph.values[size_t(node.inputs[kX])].quantizer && graph.values[size_t(node.inputs[kW])].quantizer;
}

std::map<std::string, int> make_masters(Graph& infer, const std::function<bool(const Node&)>& trains,
                                        const TrainingOptions& options) {
  Masters masters(infer, !writes_shares(options));
  for (const Node& node : infer.nodes) {
    if (!trains(node)) continue;
    const ValueId w = node.inputs[kW], b = node.inputs[kBias];
    if (!options.train.biases_only) masters.make(w, false);
    if (b != kNone) masters.make(b, true);
  }
  return masters.finish();
}

}  // namespace nacre::tools
