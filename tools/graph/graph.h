// Graph is the converter's intermediate representation: one program as a list of nodes over values.
//
// Before apply_policy ops compute with reals. Values have type float32, or an integer type that is data, such as
// indices. A value of a quantized source file carries a Quantizer and, if constant, its original codes. After
// apply_policy every value has the type in which it is stored, and every conversion is a node. Passes are functions on
// a Graph. check(graph) runs after each stage of the converter.
//
// Convolutions, pools, resize and batch_norm take channels last (NHWC). Importers of NCHW files put such an op between
// two transpose nodes. simplify removes the transposes that cancel.
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
#include "tools/base/product.h"
#include "tools/graph/name_index.h"

namespace nacre::tools {

using ValueId = int;
inline constexpr ValueId kNone = -1;

// A code stands for the number scale * (code - zero). There is one scale per tensor, or one per index of `axis`.
struct Quantizer {
  ElementType codes = ElementType::kInt8;
  std::vector<float> scale;
  std::vector<int64_t> zero;
  int axis = 0;
};

// Kinds of state tensors. The writer sorts the state of a model by this order.
enum class Kept : uint8_t { kParameter, kStatistic, kOptimizer, kNumerics, kCounter };
template <>
std::span<const char* const> names<Kept>();

// Codes that the source's file stores for a constant. If the layer's policy has their quantization and block, and no
// pass has replaced the constant's data, apply_policy stores these codes. Otherwise it quantizes the constant's
// numbers.
struct SourceCodes {
  Quantization quantization = Quantization::kNone;
  int64_t block = 0;                // terms that share a scale; 0 if all terms of a channel do
  std::vector<int8_t> codes, zero;  // codes have the order of the constant's elements
  std::vector<float> scale;         // [channels] or [channels, blocks], as the policy defines it
  std::shared_ptr<const std::vector<uint8_t>> of = nullptr;  // the Value::data that the codes stand for
};

struct Value {
  std::string name;  // unique; the source's name if it has one
  ElementType type = ElementType::kFloat32;
  std::vector<int64_t> dims;
  bool batched = false;                // axis 0 is the batch
  std::optional<Quantizer> quantizer;  // decodes the codes
  // Constants hold little-endian elements of type `stored`, in the order of `layout`. `stored` differs from `type` only
  // for codes of a quantizer. The bytes are shared, because passes copy graphs.
  std::shared_ptr<const std::vector<uint8_t>> data;
  Layout layout = Layout::kRowMajor;  // of weights that pack_weights packed for a kernel: engine/base/layout.h
  ElementType stored = ElementType::kNone;
  std::shared_ptr<const SourceCodes> source_codes = nullptr;  // not written to text
  bool keeps_steps = false;  // for constants to be trained: steps that compute from them are not folded
  // For constants that training does not change: numbers of the file's arithmetic, not parameters.
  bool fixed = false;
  bool frozen = false;    // for variables of a layer that the source does not train, statistics too
  bool variable = false;  // for constants that the source calls variables: parameters in whichever step reads them
  // For constants: the narrower type in which the source's file stores them, unless a policy chose it. Not written to
  // text.
  ElementType source_type = ElementType::kNone;
  // max |x| per calibration sample, oldest first. They fill the history of a float8 scale. For weights: the one maximum
  // from which the source made their scale.
  std::vector<float> amaxes = {};

  // In the regions state, stream, derived and step, values of one name in several graphs of a model are one tensor.
  // Nodes may update it (OpRule::inputs, '&'). `initial` holds the first elements of a state tensor, of type `type`. If
  // it is null, the tensor starts as zeros.
  std::shared_ptr<const std::vector<uint8_t>> initial = nullptr;
  Kept kept = Kept::kParameter;  // for state
  bool trainable = false;        // for state: training computes its gradient

  // make_views sets alias_of. plan_memory sets the bank, offset and steps of values in the arena.
  Region region = Region::kArena;
  uint8_t bank = 0;
  uint64_t offset = 0;  // for an alias, from the start of its target
  uint32_t first_step = 0, last_step = 0;
  ValueId alias_of = kNone;

  bool constant() const { return data != nullptr; }
  // Returns whether the model holds the value between runs.
  bool persists() const { return !constant() && region != Region::kArena && region != Region::kWeights; }
  int64_t elements() const { return product_of(dims); }
};

// Moments of a matmul's inputs over calibration samples, from which weights are fitted. One output is the product of
// one row of inputs x with weights. For dense, it is a row of the input. For a convolution it is a window, in the order
// of the weights' terms, with 0 outside of the input.
struct InputMoments {
  int64_t rows = 0, terms = 0;               // n and m in the formula of the Hessian
  std::vector<std::vector<double>> hessian;  // per group of input channels: H = 2/n sum_rows x x^T, [m, m]
  std::vector<double> mean_magnitude;        // mean |x_c| per input channel
};

struct Node {
  Op op = Op::kNone;
  Rounding rounding = Rounding::kNone;
  std::string name;             // the name of the source's operator
  int layer = kNone;            // index into Graph::layers
  std::vector<uint32_t> words;  // attributes as the engine reads them, in the order of the op's Attribute table
  std::vector<ValueId> inputs;  // kNone for an absent optional operand
  std::vector<ValueId> outputs;
  // One uint32 value. If it is 0, the node has no effect.
  ValueId guard = kNone;
  // Set if the layer's policy fits weights and calibration ran. Not written to text.
  std::shared_ptr<const InputMoments> moments = nullptr;
  // For a matmul of a float8 layer: the maximum from which the source made its input's scale. Not written to text.
  float x_amax = 0;
  // Under a policy that computes in 16 bits, this node and its gradient compute in float32, because the source does.
  bool wide = false;
};

// A layer of the source file. Policies, reports and errors name layers. Node::layer says to which one a step belongs.
struct Layer {
  std::string name;       // unique
  std::string source_op;  // "CONV_2D", "Conv", "Dense"
  Policy policy;
  bool asked = false;             // the user asked for the policy; if not, the layer runs as in its source
  bool names_loss_scale = false;  // the policy names the loss scale of its training, even if it is "none"
  // The source's own policy of the layer, as JSON, in the form of Keras's `dtype`. resolve_policies reads it.
  std::string source_policy = "";
};

struct Binding {  // an input or output as the source names it
  std::string name;
  ValueId value = kNone;
  std::string layout;  // "", "NCHW", "NHWC": only for users to read
};

struct Bank {
  std::string name;    // "sram", "tcm"
  uint64_t limit = 0;  // bytes; 0 if there is no limit
  uint64_t used = 0;   // set by plan_memory
};

struct SourceTraining;  // source_training.h

// Costs of computing the first layers patch by patch.
struct PatchReport {
  std::string layer;          // the last layer that is cut into patches
  int rows = 0, columns = 0;  // of the grid; 0 if no grid takes fewer bytes than computing layer by layer
  int layers = 0;             // number of layers that are cut
  uint64_t arena_before = 0;  // bytes, without patches
  uint64_t layer_bound = 0;   // most arena bytes that one step reads and writes without patches
  int64_t extra_macs = 0;     // multiply-accumulates in addition to `macs`
  uint64_t macs = 0;          // multiply-accumulates without patches
};

struct Graph {
  std::string source;  // file name, for errors
  std::vector<Value> values;
  std::vector<Node> nodes;  // in an order in which every value is written before it is read
  std::vector<Layer> layers;
  std::vector<Binding> inputs, outputs;
  int batch = 1;          // the largest batch, for which the graph is compiled
  bool resolved = false;  // whether resolve_policies has set the layers' policies; not written to text
  // Rounding of reals to codes as in the source. ONNX rounds half to even.
  Rounding quantize_rounding = Rounding::kHalfAway;
  std::vector<std::pair<std::string, std::string>> metadata;  // sorted by key
  std::vector<std::string> log;                               // one line per transformation, for --verbose
  // One line per step that runs in another type than its policy says.
  std::vector<std::string> fallbacks;
  std::vector<Bank> banks = {{"arena", 0, 0}};
  uint64_t liveness_bound = 0;                               // bytes; set by plan_memory
  Budget budget;                                             // limits the constants that importers and passes compute
  std::shared_ptr<const SourceTraining> training = nullptr;  // set by an import for training; not written to text
  std::shared_ptr<const PatchReport> patches = nullptr;      // not written to text

  ValueId add(Value value);                          // makes the name unique by a suffix if it is taken
  void rename(ValueId id, const std::string& name);  // only if no value has the name; never assign Value::name
  ValueId constant(const std::string& name, std::vector<int64_t> dims, const std::vector<float>& data);
  ValueId constant(const std::string& name, std::vector<int64_t> dims, const std::vector<int32_t>& data);
  ValueId constant(const std::string& name, std::vector<int64_t> dims, const std::vector<int16_t>& data);
  ValueId constant(const std::string& name, std::vector<int64_t> dims, const std::vector<int8_t>& data);
  int add_layer(Layer layer);  // makes the name unique by a suffix if it is taken

 private:
  NameIndex value_names_, layer_names_;
};

// These read and set attributes by name, coded as the op's table says. They throw Error if the name is unknown.
int get_integer(const Node& node, const char* name, int index = 0);
float get_real(const Node& node, const char* name, int index = 0);
void set_integer(Node& node, const char* name, int value, int index = 0);
void set_real(Node& node, const char* name, float value, int index = 0);

// Makes a step with the layer and `wide` of `near`. With Node() as `near` it has no layer.
Node make_step(Op op, const Node& near, const std::string& name, std::vector<ValueId> inputs,
               std::vector<ValueId> outputs);

bool is_matmul(Op op);                 // dense and the convolutions, whose weights a policy quantizes
size_t channel_axis(Op op);            // the axis of output channels in a matmul's weights
bool is_float_type(ElementType type);  // whether it is float16, bfloat16, float32 or float64

// Return constant data as vectors. `value` must be a row-major constant. reals() decodes codes, and casts all other
// numbers to float32. integers() throws Error for floats.
std::vector<float> reals(const Value& value);
std::vector<int64_t> integers(const Value& value);
// Makes the constant hold these float32 numbers, without a quantizer.
void set_reals(Value& constant, std::span<const float> numbers);

// text.cc: dump() writes a graph as text that people read and tests write. parse() reads it. Constants of up to 64
// elements are written whole. Larger ones are written as hex of their bytes if `full`, else as a hash, which parse()
// refuses.
std::string dump(const Graph& graph, bool full = false);
Graph parse(const std::string& text);

// check.cc: throws an Error that names the layer, node or value for which an invariant of this file does not hold.
void check(const Graph& graph);

// infer.cc: runs the ops' shape rules and sets the dims of the outputs. `nodes` must be in order. Throws an Error that
// names the node or the value.
void infer_shapes(Graph& graph);
void infer_shapes(Graph& graph, const Node& node);

// evaluate.cc: runs one node with the reference kernels on constant inputs and returns its outputs' bytes.
std::vector<std::vector<uint8_t>> evaluate(const Graph& graph, const Node& node);

}  // namespace nacre::tools
