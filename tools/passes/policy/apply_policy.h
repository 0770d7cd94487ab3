// Declares the types and functions that the parts of apply_policy share. Only tools/passes uses them.
//
//   apply_policy.cc  the walk over the nodes: the form that each takes, and the conversions at the borders
//   values.cc  conversions of values: codes of constants, quantize, dequantize, requantize, uint8 borders (uint8.cc)
//   types.cc   float types: the type that each step runs in, its casts and its constants
//   matmul.cc  dense and conv on codes that the source has: int8, hybrid
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

  // Returns whether a value is stored as int8, int16 or, between QUANTIZE operators, int32 codes with one quantizer
  // for the whole value.
  bool coded(ValueId id) const;
  Codes codes(ValueId id) const;
  const Policy& policy(const Node& node) const;
  bool asked(const Node& node) const { return node.layer != kNone && asked_[size_t(node.layer)].asked; }
  // Returns whether every operation of the node's layer rounds to a 16-bit compute type (NUMERICS.md section 14).
  bool rounds_each(const Node& node) const {
    return asked(node) && policy(node).operation_rounding == OperationRounding::kEach && narrow(policy(node).compute);
  }
  // Returns the type in which the node's layer computes: float32, float16, bfloat16 or float64.
  ElementType compute(const Node& node) const {
    const bool named = asked(node) || is_float_type(policy(node).compute);
    return named && !(node.wide && narrow(policy(node).compute)) ? policy(node).compute : ElementType::kFloat32;
  }

  // Adds a step. The first step of the strongest numeric class fills the record of its layer.
  void emit(Node node);
  void record(const Node& node, ElementType variable, ElementType compute, ElementType output,
              Quantization quantization);
  void log(const Node& node, const std::string& what);
  // Lists a step that does not run as its layer's policy says.
  void fall_back(const Node& node, const std::string& wanted, const std::string& runs, const std::string& reason);

  // Returns the constant with the source's codes.
  ValueId as_codes(ValueId id);
  // Returns a constant or a coded value as float32. One dequantize step serves all readers of a value.
  ValueId as_real(const Node& reader, ValueId id) { return as_type(reader, id, ElementType::kFloat32); }
  // Returns a real value in a float type. If it has another type, a cast step converts it, one per value and type.
  // Constants are first rounded to the type in which the reader's policy keeps variables. Integers that are data stay
  // as they are.
  ValueId as_type(const Node& reader, ValueId id, ElementType type);
  // Returns the elements of a constant, each rounded to the `types` one after the other. A number beyond a type
  // becomes the type's largest number, and the log says so. Infinity stays infinity. Throws for NaN in the source.
  std::vector<float> rounded_reals(const Node& reader, const Value& constant, std::initializer_list<ElementType> types);
  // Returns rounded_reals() for a constant that becomes codes. Throws for infinity too, which has no code.
  std::vector<float> codable_reals(const Node& reader, const Value& constant, std::initializer_list<ElementType> types);
  // Adds a step whose float outputs are made in `type`. Adds casts from that to the type in which they are kept: the
  // policy's output type, or the graph's. `entry` is the kernel that says which outputs have another type. null if
  // there is none.
  void emit_in(Node node, ElementType type, const KernelEntry* entry = nullptr);
  // Returns `x` with the codes of another quantizer, by a requantize step.
  ValueId with_codes(const Node& reader, ValueId x, const Quantizer& quantizer);
  void requantize(const Node& near, ValueId x, ValueId y);
  // Makes an activation with the dims of `like`.
  ValueId like(ValueId like, const std::string& suffix, ElementType type);

  // Returns {multiplier, shift} per row, int32 [rows, 2]. For a dense or conv under kFloatEven: float32 [rows].
  ValueId requant(Node& node, const std::vector<double>& multipliers);
  Rounding rounding(const Node& node);
  bool as_litert() const { return options_.rounding == Rounding::kNone; }
  // Returns whether the codes were uint8 in a TensorFlow Lite file. TFLite's uint8 kernels do not always compute as
  // its int8 kernels do.
  bool of_uint8(ValueId id) const { return uint8_.contains(id); }
  // Sets the clamp words of a step on codes, from real bounds and the codes of y.
  void set_clamp_codes(Node& node, Codes y);

 private:
  // The elements of a constant that a type cannot represent.
  struct Saturated {
    uint64_t count = 0;
    float first = 0;
    size_t index = 0;  // index of `first`
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
  // The layers as the source and the user want them. record() writes their outcome into the graph.
  const std::vector<Layer> asked_ = graph_.layers;
  std::vector<Node> steps_;
  std::vector<std::pair<ValueId, ValueId>> output_borders_;   // int8 value, uint8 output
  std::set<ValueId> uint8_;                                   // of_uint8()
  std::map<ValueId, ValueId> reals_;                          // by value of codes
  std::map<std::pair<ValueId, ElementType>, ValueId> typed_;  // one real value in another float type
  // By output of a cast in the source that loses nothing: the cast's input.
  std::map<ValueId, ValueId> widened_;
  // By constant, variable type and compute type: the constant rounded to both.
  std::map<std::tuple<ValueId, ElementType, ElementType>, ValueId> constants_;
  std::set<ValueId> wide_;       // only wide nodes write and read these: no layer's output type rounds them
  std::map<int, int> recorded_;  // by layer: the strength (record()) of the step that filled its record
  std::vector<std::string> problems_;
  std::map<ValueId, Quantizer> integer_products_;  // products that integer loops over time read
};

// An op that TFLite computes on codes. write() emits the steps and returns true. If the node's attributes or
// quantizers have no exact form, it emits nothing, returns false, and `why` says so.
struct IntegerForm {
  Op op;
  bool (*write)(PolicyPass& pass, Node node, std::string& why);
  bool (*write_int16)(PolicyPass& pass, Node node, std::string& why) = write;  // null if there is only int8
};
const IntegerForm* find_integer_form(Op op);  // null unless OpFacts::forms says that there is a form

bool converts(Op op);  // whether the op only converts between reals and codes, or between codes

// uint8.cc: ops on x for which of_uint8() holds.
void write_uint8_average(PolicyPass& pass, Node node);
void write_uint8_resize(PolicyPass& pass, Node node);
ValueId uint8_with_codes(PolicyPass& pass, const Node& reader, ValueId x, const Quantizer& quantizer);  // for concat

// matmul.cc
bool write_integer_matmul(PolicyPass& pass, Node node, std::string& why);
// Writes a dense or conv with float activations as its layer's policy says, else in the policy's compute type.
void write_real_matmul(PolicyPass& pass, Node node);
// These use the int8 codes of the source file.
void write_hybrid(PolicyPass& pass, Node node);
void write_weight_only(PolicyPass& pass, Node node);
std::string refusal_of_weights(const PolicyPass& pass, const Node& node);  // why the weights are no such codes, or ""

// loops.cc: returns the products of loops that run in integers, with their codes. Other loops' states lose their
// quantizers.
std::map<ValueId, Quantizer> integer_products(PolicyPass& pass);
void write_integer_product(PolicyPass& pass, Node dense, const Quantizer& codes);
void write_integer_loop(PolicyPass& pass, Node loop);

// weights.cc: writes a step whose weights are quantized here. Returns "", or why it could not.
std::string write_quantized_matmul(PolicyPass& pass, const Node& node);

// Returns the code of a real bound: zero + round(v / scale), half away from zero, in float32, saturated to the type of
// the codes. This is TFLite's CalculateActivationRangeQuantized (kernel_util.cc).
int32_t bound_code(float bound, Codes y);

}  // namespace nacre::tools
