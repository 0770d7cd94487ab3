// Declarations that the parts of apply_policy share. Private to tools/passes/policy.
//
//   apply_policy.cc         the walk over the nodes: which form each takes, and what stands at the borders
//   values.cc  conversions of values: codes of constants, quantize, dequantize, requantize, uint8 borders
//   types.cc   float types: which one a step runs in, casts, constants in it
//   matmul.cc  dense and conv on codes that the source brings: int8, hybrid
//   weights.cc dense and conv whose weights are quantized here: int8, int4, float8
//   loops.cc   loops over time in integers
//   forms.cc   the table of integer forms of all other ops
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/kernels/kernel.h"
#include "tools/graph/graph.h"
#include "tools/graph/op_facts.h"
#include "tools/passes/passes.h"
#include "tools/policies/policy_fields.h"

namespace nacre::tools {

// Codes of one activation: real = scale * (code - zero).
struct Codes {
  float scale;
  int32_t zero;
  ElementType type = ElementType::kInt8;

  bool operator==(const Codes&) const = default;
};

class PolicyPass {
 public:
  PolicyPass(Graph& graph, const PolicyOptions& options) : graph_(graph), options_(options) {}

  void run();

  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }
  Graph& graph() { return graph_; }

  // True for a value that is stored as int8, int16 or, between QUANTIZE operators, int32 codes with one quantizer for
  // all of it.
  bool coded(ValueId id) const;
  Codes codes(ValueId id) const;
  const Policy& policy(const Node& node) const;
  bool asked(const Node& node) const { return node.layer != kNone && asked_[size_t(node.layer)].asked; }
  // Whether every operation of the node's layer rounds to a 16-bit compute type (NUMERICS.md section 14).
  bool rounds_each(const Node& node) const {
    return asked(node) && policy(node).operation_rounding == OperationRounding::kEach && narrow(policy(node).compute);
  }
  // float32, float16, bfloat16 or float64: what the layer of this node computes in.
  ElementType compute(const Node& node) const {
    const bool named = asked(node) || is_float_type(policy(node).compute);
    return named && !(node.wide && narrow(policy(node).compute)) ? policy(node).compute : ElementType::kFloat32;
  }

  // Adds a step. Its layer's record is filled by the first step of the strongest numeric class.
  void emit(Node node);
  void record(const Node& node, ElementType variable, ElementType compute, ElementType output,
              Quantization quantization);
  void log(const Node& node, const std::string& what);
  // Lists a step that runs in another way than its layer's policy says.
  void fall_back(const Node& node, const std::string& wanted, const std::string& runs, const std::string& reason);

  // The codes of a constant, as they stand in the source.
  ValueId as_codes(ValueId id);
  // A constant or a value of codes as float32; one dequantize step per value.
  ValueId as_real(const Node& reader, ValueId id) { return as_type(reader, id, ElementType::kFloat32); }
  // A real value in a float type, by a cast step where it has another; one per value and type. Constants are rounded to
  // the type in which the reader's policy keeps variables first. Integers that are data stay as they are.
  ValueId as_type(const Node& reader, ValueId id, ElementType type);
  // The elements of a constant, each rounded to `types` one after the other; what is beyond one of these types becomes
  // its largest number, which the log says; infinity stays infinity. Throws for NaN in the source.
  std::vector<float> rounded_reals(const Node& reader, const Value& constant, std::initializer_list<ElementType> types);
  // Returns rounded_reals() of a constant that becomes codes: throws for infinity too, which has no code.
  std::vector<float> codable_reals(const Node& reader, const Value& constant, std::initializer_list<ElementType> types);
  // Adds a step whose float outputs are made in `type`, and what brings them into the type in which they are kept: the
  // policy's output type, or the graph's.
  // `entry`: the kernel that says which outputs have another type; null: none.
  void emit_in(Node node, ElementType type, const KernelEntry* entry = nullptr);
  // `x` with the codes of another quantizer: a requantize step.
  ValueId with_codes(const Node& reader, ValueId x, const Quantizer& quantizer);
  void requantize(const Node& near, ValueId x, ValueId y);
  // A new activation of the same dims as `like`.
  ValueId like(ValueId like, const std::string& suffix, ElementType type);

  // {multiplier, shift} per row, int32 [rows, 2]; of a dense or conv under kFloatEven: float32 [rows].
  ValueId requant(Node& node, const std::vector<double>& multipliers);
  Rounding rounding(const Node& node);
  bool as_litert() const { return options_.rounding == Rounding::kNone; }
  // Codes that were uint8 in a file of TensorFlow Lite, whose kernels of uint8 are not those of int8 everywhere.
  bool of_uint8(ValueId id) const { return uint8_.contains(id); }
  // The clamp words of a step on codes, from real bounds: facts of quantizer y.
  void set_clamp_codes(Node& node, Codes y);

 private:
  // The elements of a constant that a type does not hold.
  struct Saturated {
    uint64_t count = 0;
    float first = 0;
    size_t index = 0;  // of the first
    ElementType type = ElementType::kNone;
    bool all_negative = true;

    void add(float x, size_t i, ElementType t) {
      if (count++ == 0) first = x, index = i, type = t;
      all_negative = all_negative && x < 0;
    }
  };
  void say_saturated(const Node& reader, const Value& constant, const Saturated& saturated);

  bool collect(const std::function<void()>& work);
  void drop_quantizers();
  void prepare_values();
  void prepare_constant(Value& value);
  void prepare_activation(Value& value);
  void add_uint8_borders();
  bool only_converts(const Node& node) const;
  bool open_input(Binding& input);
  bool open_output(Binding& output);
  void open_io_types();
  void let_quantizers_travel();
  void resolve(const Node& node);
  void convert(const Node& node);
  void real(Node node);
  ElementType step_type(const Node& node) const;
  void find_wide_values();
  std::vector<ElementType> kept_types(const Node& node, ValueId y, ElementType type) const;
  ValueId decoded(const Node& reader, ValueId id);
  ValueId constant_in(const Node& reader, ValueId id, ElementType type);
  void cast(const Node& near, ValueId x, ValueId y);
  bool casts_real(const Node& node) const;
  void cast_real(const Node& node);
  void by_way_of_real(Node node, const std::string& reason);
  void quantize(const Node& near, ValueId x, ValueId y);
  void dequantize(const Node& near, ValueId x, ValueId y);
  std::vector<ValueId> with_scale(ValueId x, Codes codes, const std::string& name);

  Graph& graph_;
  const PolicyOptions& options_;
  // as the source and the user want them; record() tells what became of it
  const std::vector<Layer> asked_ = graph_.layers;
  std::vector<Node> steps_;
  std::vector<std::pair<ValueId, ValueId>> output_borders_;   // int8 value, uint8 output
  std::set<ValueId> uint8_;                                   // of_uint8()
  std::map<ValueId, ValueId> reals_;                          // of codes
  std::map<std::pair<ValueId, ElementType>, ValueId> typed_;  // the same real value in another float type
  std::map<ValueId, ValueId> widened_;  // what casts of the source that lose nothing give: what they read
  // rounded to a variable's and a compute type
  std::map<std::tuple<ValueId, ElementType, ElementType>, ValueId> constants_;
  std::set<ValueId> wide_;       // written and read by wide nodes alone: no layer's output type rounds them
  std::map<int, int> recorded_;  // layer -> numeric class of the recorded step
  std::vector<std::string> problems_;
  std::map<ValueId, Quantizer> integer_products_;  // what integer loops over time take
};

// An op that TFLite computes on codes. write() emits the steps and returns true, or returns false and has emitted
// nothing if the node's attributes or quantizers have no exact form; `why` then says so.
struct IntegerForm {
  Op op;
  bool (*write)(PolicyPass& pass, Node node, std::string& why);
  bool (*write_int16)(PolicyPass& pass, Node node, std::string& why) = write;  // null: int8 alone
};
const IntegerForm* find_integer_form(Op op);  // where OpFacts::forms says that there is one

bool converts(Op op);  // only from codes to reals, or back

// uint8.cc: of x that is of_uint8().
void write_uint8_average(PolicyPass& pass, Node node);
void write_uint8_resize(PolicyPass& pass, Node node);
ValueId uint8_with_codes(PolicyPass& pass, const Node& reader, ValueId x, const Quantizer& quantizer);  // of a concat

// matmul.cc
bool write_integer_matmul(PolicyPass& pass, Node node, std::string& why);
// Writes a dense or conv with float activations as its layer's policy says, else in the policy's compute type.
void write_real_matmul(PolicyPass& pass, Node node);
// With the int8 codes that the source file brings.
void write_hybrid(PolicyPass& pass, Node node);
void write_weight_only(PolicyPass& pass, Node node);
std::string refusal_of_weights(const PolicyPass& pass, const Node& node);  // why they are no such codes, or ""

// loops.cc: the products that loops take which run in integers, with their codes. Other loops lose the
// quantizers of their past.
std::map<ValueId, Quantizer> integer_products(PolicyPass& pass);
void write_integer_product(PolicyPass& pass, Node dense, const Quantizer& codes);
void write_integer_loop(PolicyPass& pass, Node loop);

// weights.cc: with weights that are quantized here. Empty: written; else why not.
std::string write_quantized_matmul(PolicyPass& pass, const Node& node);

// The code of a real bound, TFLite's CalculateActivationRangeQuantized (kernel_util.cc): zero + round(v / scale), half
// away from zero, in float32, saturated to the type of the codes.
int32_t bound_code(float bound, Codes y);

}  // namespace nacre::tools
