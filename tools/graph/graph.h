// The converter's intermediate representation: one program as a list of nodes over values.
//
// Before apply_policy every op is real-valued: values have type float32 (or an integer type that is data, such as
// indices), and a value of a quantized source file carries a Quantizer and, if constant, its original codes. After it
// every value has the type it is stored in and every conversion is a node. Passes are functions on a Graph;
// check(graph) holds after each.
//
// Layout is NHWC for every op that cares (conv, pool, batch_norm: channels last). Importers of NCHW files wrap such an
// op into two transpose nodes; simplify removes what cancels.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/numeric/policy.h"
#include "engine/ops/op.h"
#include "tools/base/budget.h"
#include "tools/base/names.h"
#include "tools/graph/name_index.h"

namespace nacre::tools {

using ValueId = int;
inline constexpr ValueId kNone = -1;

// real = scale * (code - zero), per tensor (one entry) or per index of `axis`.
struct Quantizer {
  ElementType codes = ElementType::kInt8;
  std::vector<float> scale;
  std::vector<int64_t> zero;
  int axis = 0;
};

// Order of the values of the state block.
enum class Kept : uint8_t { kParameter, kStatistic, kOptimizer, kNumerics, kCounter };
template <>
std::span<const char* const> names<Kept>();

// Codes that the source made of a constant's numbers under the policy that its layer came with. While the layer keeps
// that policy they are stored as they are; its rule would give them again, but for what rounding lost.
struct SourceCodes {
  Quantization quantization = Quantization::kNone;
  int64_t block = 0;                // terms that share a scale; 0: those of a channel
  std::vector<int8_t> codes, zero;  // codes: as the constant's elements
  std::vector<float> scale;         // as the policy's rule has it, [channels] or [channels, blocks]
  std::shared_ptr<const std::vector<uint8_t>> of = nullptr;  // Value::data that they mean
};

struct Value {
  std::string name;  // unique; the source's where it has one
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> dims;
  bool batched = false;                // axis 0 is the batch
  std::optional<Quantizer> quantizer;  // what the codes mean
  // Constants: little-endian elements of type `stored`, in order. `stored` differs from `type` only before
  // apply_policy, for codes of a quantizer. Shared, because passes copy graphs.
  std::shared_ptr<const std::vector<uint8_t>> data;
  Layout layout = Layout::kRowMajor;  // of weights that pack_weights made for a kernel: engine/base/layout.h
  ElementType stored = ElementType::kNone;
  std::shared_ptr<const SourceCodes> source_codes = nullptr;  // no part of text
  bool keeps_steps = false;  // constants that are to be trained: what steps make of it is not folded
  // constants that no training changes: a number of the file's arithmetic, no parameter
  bool fixed = false;
  bool frozen = false;    // variables of a layer that the source does not train, statistics too
  bool variable = false;  // constants that the source itself calls variables: parameters of whichever step reads them
  // Constants: the narrower type of their numbers in the source's file, where that is no policy's doing; no part of
  // text.
  ElementType source_type = ElementType::kNone;
  // max |x| per calibration sample, oldest first: what fills a float8 history; of weights what the source made their
  // scale of
  std::vector<float> amaxes = {};

  // Values in state, stream, derived and step: graphs of one model that have a value of one name mean one
  // tensor. Nodes may update it (OpRule::inputs, '&'). `initial`: state's first value, elements of `type`; null:
  // zeros.
  std::shared_ptr<const std::vector<uint8_t>> initial = nullptr;
  Kept kept = Kept::kParameter;  // state
  bool trainable = false;        // state: a gradient is made for it

  // Set by plan_memory, but for what persists.
  Region region = Region::kArena;
  uint8_t bank = 0;
  uint64_t offset = 0;  // of an alias: from the start of its target
  uint32_t first_step = 0, last_step = 0;
  ValueId alias_of = kNone;

  bool constant() const { return data != nullptr; }
  // Held by the model, not by one run.
  bool persists() const { return !constant() && region != Region::kArena && region != Region::kWeights; }
  int64_t elements() const {
    int64_t product = 1;
    for (int64_t d : dims) product *= d;
    return product;
  }
};

// Moments of a matmul's inputs over calibration samples, for a fit of its weights. A row is what one output's sum
// reads. Dense: a row of x; a convolution: a window, in the order of the weights' terms, 0 outside of x.
struct InputMoments {
  int64_t rows = 0, terms = 0;               // n and m
  std::vector<std::vector<double>> hessian;  // per group of input channels: H = 2/n sum_rows x x^T, [m, m]
  std::vector<double> mean_magnitude;        // mean |x_c| per input channel
};

struct Node {
  Op op = Op::kNone;
  Rounding rounding = Rounding::kNone;
  std::string name;             // of the source's operator
  int layer = kNone;            // index into Graph::layers
  std::vector<uint32_t> words;  // as the engine reads them: see the op's Attribute table
  std::vector<ValueId> inputs;  // kNone: an optional operand that is absent
  std::vector<ValueId> outputs;
  ValueId guard = kNone;                                  // one uint32: where it is 0 the node has no effect
  std::shared_ptr<const InputMoments> moments = nullptr;  // where the policy of the layer fits weights; no part of text
  float x_amax = 0;  // of a matmul of a float8 layer: what the source made its input's scale of; no part of text
  // Under a policy that computes in 16 bits the node computes in float32, and so does its gradient: its source does.
  bool wide = false;
};

// A layer of the source file: what policies, reports and errors speak of. Steps keep it through every pass.
struct Layer {
  std::string name;       // unique
  std::string source_op;  // "CONV_2D", "Conv", "Dense"
  Policy policy;
  bool asked = false;             // the policy is the user's wish; else the layer runs as its source does
  bool names_loss_scale = false;  // the policy says which loss scale its training has, be it none
  // what the source says of the layer's numbers, in Keras's JSON; resolve_policies reads it
  std::string source_policy = "";
};

struct Binding {  // an input or output as the source names it
  std::string name;
  ValueId value = kNone;
  std::string layout;  // "", "NCHW", "NHWC": for people
};

struct Bank {
  std::string name;    // "sram", "tcm"
  uint64_t limit = 0;  // bytes; 0: none
  uint64_t used = 0;   // set by plan_memory
};

struct SourceTraining;  // source_training.h

// Costs of computing the first layers patch by patch.
struct PatchReport {
  std::string layer;          // the last of them
  int rows = 0, columns = 0;  // of the grid; 0: layer by layer takes fewer bytes
  int layers = 0;             // that are cut
  uint64_t arena_before = 0;  // bytes, without patches
  uint64_t layer_bound = 0;   // bytes: the most that a step of then reads and writes
  int64_t extra_macs = 0;     // multiply-accumulates over those of then
  uint64_t macs = 0;          // of then
};

struct Graph {
  std::string source;  // file name, for errors
  std::vector<Value> values;
  std::vector<Node> nodes;  // in an order in which every value is written before it is read
  std::vector<Layer> layers;
  std::vector<Binding> inputs, outputs;
  int batch = 1;          // compiled maximum
  bool resolved = false;  // resolve_policies has run: layers have the policies that were asked for; no part of text
  // of reals to codes, as the source does it: ONNX half to even
  Rounding quantize_rounding = Rounding::kHalfAway;
  std::vector<std::pair<std::string, std::string>> metadata;  // sorted by key
  std::vector<std::string> log;                               // one line per transformation, for --verbose
  // one line per step that runs in another type than its policy says
  std::vector<std::string> fallbacks;
  std::vector<Bank> banks = {{"arena", 0, 0}};
  uint64_t liveness_bound = 0;                               // bytes; set by plan_memory
  Budget budget;                                             // of constants that importers and passes compute
  std::shared_ptr<const SourceTraining> training = nullptr;  // of graphs imported to be trained; no part of text
  std::shared_ptr<const PatchReport> patches = nullptr;      // no part of text

  ValueId add(Value value);                          // makes the name unique by a suffix if it is taken
  void rename(ValueId id, const std::string& name);  // unless a value has the name: names are not assigned
  ValueId constant(const std::string& name, std::vector<int64_t> dims, const std::vector<float>& data);
  ValueId constant(const std::string& name, std::vector<int64_t> dims, const std::vector<int32_t>& data);
  ValueId constant(const std::string& name, std::vector<int64_t> dims, const std::vector<int16_t>& data);
  ValueId constant(const std::string& name, std::vector<int64_t> dims, const std::vector<int8_t>& data);
  int add_layer(Layer layer);  // makes the name unique by a suffix if it is taken

 private:
  NameIndex value_names_, layer_names_;
};

// Attributes by name, coded as the op's table says. Unknown names are a programmer's error.
int get_integer(const Node& node, const char* name, int index = 0);
float get_real(const Node& node, const char* name, int index = 0);
void set_integer(Node& node, const char* name, int value, int index = 0);
void set_real(Node& node, const char* name, float value, int index = 0);

// A step of the layer of `near` (of none for Node()).
Node make_step(Op op, const Node& near, const std::string& name, std::vector<ValueId> inputs,
               std::vector<ValueId> outputs);

bool is_matmul(Op op);                 // dense and the convolutions: what a policy quantizes
size_t channel_axis(Op op);            // of a matmul's weights: the output channels
bool is_float_type(ElementType type);  // one in which steps compute

// Constant data as vectors. `value` must be constant and stored in that type; reals() also decodes codes and casts
// integers and 16-bit floats.
std::vector<float> reals(const Value& value);
std::vector<int64_t> integers(const Value& value);
// A constant becomes these float32 numbers, without a quantizer.
void set_reals(Value& constant, std::span<const float> numbers);

// text.cc: a form that people read and tests write. parse(dump(g)) == g, constants included (up to 64 elements in
// full, larger ones as hex of their bytes when `full`, else as a hash, which parse refuses).
std::string dump(const Graph& graph, bool full = false);
Graph parse(const std::string& text);

// check.cc: throws Error naming the node or value if an invariant of this page does not hold.
void check(const Graph& graph);

// infer.cc: runs the op's shape rule. `nodes` in order; sets dims of the outputs, throws Error naming the node.
void infer_shapes(Graph& graph);
void infer_shapes(Graph& graph, const Node& node);

// evaluate.cc: runs one node with the reference kernels on constant inputs and returns its outputs' bytes.
std::vector<std::vector<uint8_t>> evaluate(const Graph& graph, const Node& node);

}  // namespace nacre::tools
