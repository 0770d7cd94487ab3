// What the parts of the TensorFlow Lite importer share. Private to tools/importers/tflite.
//
//   file.cc        the file: checks, order of operators, inputs and outputs, batch
//   tensors.cc     tensors become values: types, quantizers, constants
//   nodes.cc       operands and nodes, which the converters below use
//   matmul.cc      CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, BATCH_MATMUL, pools, REDUCE_MAX
//   pointwise.cc   arithmetic, functions, activations, PRELU, softmaxes, reductions, QUANTIZE, DEQUANTIZE, CAST
//   move.cc        RESHAPE and its kin, TRANSPOSE, CONCATENATION, PACK, PAD, SHAPE
//   resize.cc      RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR
//   space.cc       DEPTH_TO_SPACE, SPACE_TO_DEPTH, SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND
//   transposed.cc  TRANSPOSE_CONV, CONV_3D_TRANSPOSE
//   uint8.cc       weights of uint8
//   recurrent.cc   UNIDIRECTIONAL_SEQUENCE_LSTM, BIDIRECTIONAL_SEQUENCE_LSTM, SVDF
//   rnn.cc         UNIDIRECTIONAL_SEQUENCE_RNN
//   variables.cc   VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, CALL_ONCE
//   slice.cc       SLICE, STRIDED_SLICE, SPLIT, SPLIT_V, UNPACK, REVERSE_V2
//   repeat.cc      TILE, BROADCAST_TO, GATHER of stored indices, LOGICAL_AND, _OR, _NOT, ONE_HOT, ADD_N
//   places.cc      GATHER, GATHER_ND, SCATTER_ND, segments and their kin: rows by their places
//   order.cc       TOPK_V2, BUCKETIZE, and integers where the engine has no step of their own
//   volume.cc      CONV_3D, LOCAL_RESPONSE_NORMALIZATION
//   dynamic.cc     SLICE, STRIDED_SLICE and DYNAMIC_UPDATE_SLICE at places that only a run knows
//   spectrum.cc    RFFT2D of one axis, and RESHAPE, REAL, IMAG, COMPLEX_ABS of what it gives
//   signal.cc      TensorFlow Lite Micro's Signal operators, and what reads their numbers
//   fold.cc        integers, bools and fillings that are known while reading
//   control.cc     WHILE, IF and STABLEHLO_COMPOSITE: graphs that are called
//   rows.cc        the lists of a WHILE
//   lists.cc       the lists of TensorFlow: FlexTensorListReserve and its kin
//   metadata.cc    labels and normalisation, which stand beside the network
//
// The graph is real-valued: a quantized tensor is a float32 value with a Quantizer, constants keep their codes.
// QUANTIZE and DEQUANTIZE, which leave real values as they are, become copies; apply_policy makes steps of them.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "tflite_generated.h"
#include "tools/base/error.h"
#include "tools/importers/importer.h"

namespace nacre::tools::tflite {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr int64_t kMaxSize = int64_t{1} << 28;  // of an axis: the engine's limit

struct Operation {  // an operator of the file
  const Operator* record = nullptr;
  BuiltinOperator code = BuiltinOperator::ADD;
  std::string code_name;             // "CONV_2D", or the custom operator's own
  std::string name;                  // of its layer: the name of its first output
  std::vector<int> inputs, outputs;  // tensors; kNone: absent
  int layer = kNone;                 // made by the first node
};

struct Run {  // rows first .. first + count - 1 of a value, along axis 0
  ValueId of;
  int64_t first, count;
};
struct Rows {  // one after the other; of a tensor that no step has made yet
  std::vector<Run> runs;
  std::vector<int64_t> dims;
};

struct Argument {  // of a graph that is called, or what it gives
  ValueId value = kNone;
  Rows rows = {};  // where there is no value
};

struct Complex {
  ValueId real, imaginary;
};

// The sums of a SignalFilterBank, before their roots (signal.cc): entries [n, 2] as the step reads them.
struct FilterSums {
  ValueId energies, entries;
  int64_t channels;
};

// A graph of the file while it is read: the main one, or one that an operator calls.
struct Scope {
  const SubGraph* graph = nullptr;
  int depth = -1;                           // 0: the main graph
  std::vector<ValueId> values = {};         // of tensors; kNone: not yet
  std::vector<bool> written = {};           // by an operator
  std::vector<bool> beside_quantize = {};   // tensors that a QUANTIZE reads or writes
  std::map<int, Rows> rows = {};            // of tensors without a value
  std::map<int, std::string> handles = {};  // tensors that are handles: the variable's name
  std::map<int, Complex> complexes = {};    // tensors of complex numbers
  std::vector<bool> beside_signal = {};     // tensors that a Signal operator reads or writes
  std::set<int> signals = {};               // tensors of int16 or uint32 whose values are int32
  std::map<int, FilterSums> sums = {};      // tensors of uint64
};

// metadata.cc: keys and values for the model file: labels, input.NAME.mean, input.NAME.std.
std::vector<std::pair<std::string, std::string>> read_metadata(const Model& model, std::span<const uint8_t> file,
                                                               const std::string& place, const Graph& graph);

class Importer {
 public:
  Importer(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options);
  Graph run();

  // Operands. An input is a value that exists: a constant, an input of the graph or what an operator before gave out.
  bool has_input(const Operation& op, size_t i) const { return i < op.inputs.size() && op.inputs[i] != kNone; }
  ValueId input(const Operation& op, size_t i);
  ValueId real_input(const Operation& op, size_t i);              // refuses integer data
  ValueId whole_or_real_input(const Operation& op, size_t i);     // float32, int32 or int64
  std::vector<int64_t> integers(const Operation& op, size_t i);   // of a constant that says how, not what
  bool is_computed(const Operation& op, size_t i) const;          // a constant that an operator before gave out
  std::vector<int64_t> file_dims(const Operation& op, size_t i);  // of an input, before --batch
  std::vector<int64_t> declared_dims(const Operation& op) const;  // of output 0, in the file
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }
  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }
  Graph& graph() { return graph_; }

  // rows.cc
  bool in_called_graph() const { return scope_.depth > 0; }
  bool is_empty(const Operation& op, size_t i) const;          // it has no rows
  std::optional<Rows> rows_of(const Operation& op, size_t i);  // none of a single number
  void define_rows(const Operation& op, Rows rows);            // output 0 is these rows
  ValueId cut_rows(Operation& op, const Run& run);

  // Complex numbers, as two values (spectrum.cc).
  std::optional<Complex> complex_input(const Operation& op) const;  // input 0
  void define_complex(const Operation& op, Complex y) { scope_.complexes[op.outputs[0]] = y; }

  // Numbers of the audio front end (signal.cc).
  void define_signal(const Operation& op, size_t i, ValueId x);  // output i is x, of int32
  bool is_signal(int tensor) const { return scope_.signals.contains(tensor); }
  bool is_uint32(int index) const { return tensor(index).type() == TensorType::UINT32; }
  void define_sums(const Operation& op, const FilterSums& sums) { scope_.sums[op.outputs[0]] = sums; }
  const FilterSums* filter_sums(const Operation& op) const;            // input 0
  ValueId stream(const std::string& name, std::vector<int64_t> dims);  // int32, kept from run to run

  // control.cc
  std::vector<Argument> arguments(const Operation& op, size_t first);  // the inputs from there on
  std::vector<Argument> call(const Operation& op, int graph, const std::vector<Argument>& arguments);
  void give(const Operation& op, const std::vector<Argument>& results);  // the outputs
  size_t problems() const { return problems_.size(); }

  // Operand i, a variable: what one run leaves for the next, a value of the stream region. `coded`: with its quantizer.
  ValueId state(const Operation& op, size_t i, std::vector<int64_t> dims, bool coded);
  Quantizer loop_codes(const Operation& op, int index) const;  // of a tensor of int8 or int16

  // variables.cc
  void name_variable(const Operation& op);          // output 0 is the handle of a variable
  ValueId variable(const Operation& op, int like);  // of the handle that is input 0, as tensor `like` is
  void check_initial(const Operation& op) const;    // of a CALL_ONCE
  void store(ValueId x, ValueId s);                 // a step: s is x, for the next run

  ValueId output(const Operation& op, size_t i = 0);         // its value, without dims
  ValueId between(ValueId like, const std::string& suffix);  // a value of the same type and quantizer, without dims
  void define(const Operation& op, Value constant);          // output 0 is this constant
  void define_integers(const Operation& op, const std::vector<int64_t>& numbers, const std::vector<int64_t>& dims);
  ElementType declared_type(const Operation& op) const;  // of output 0, in the file

  // The node gets name and layer; the shapes of its outputs are inferred.
  void emit(Operation& op, Node node);
  // The same, with a fused activation before its one output: `y`, or output 0 of the operator.
  void emit_activated(Operation& op, Node node, Activation activation, ValueId y = kNone);
  // The parts, one after the other along an axis, as at most 16: operands of a step are few.
  std::vector<ValueId> in_groups(Operation& op, std::vector<ValueId> parts, int axis, ValueId like);
  // y = x with other dims.
  void emit_reshape(Operation& op, ValueId x, std::vector<int64_t> dims, ValueId y);
  Policy& policy(Operation& op);

  template <class T>
  const T& options(const Operation& op) const {
    const T* options = op.record->template builtin_options_as<T>();
    if (options == nullptr) bad(op, "has no options of its kind");
    return *options;
  }

  // An axis in [-rank, rank) as one in [0, rank).
  int axis(const Operation& op, int64_t axis, size_t rank) const;
  int integer(const Operation& op, int64_t number, const char* what) const;  // fits an int

  [[noreturn]] void unsupported(const Operation& op, const std::string& reason) const;
  [[noreturn]] void unsupported(const std::string& place, const std::string& reason) const;
  [[noreturn]] void bad(const Operation& op, const std::string& fact) const;
  [[noreturn]] void bad(const std::string& place, const std::string& fact) const;

 private:
  const Tensor& tensor(int index) const { return *scope_.graph->tensors()->Get(flatbuffers::uoffset_t(index)); }
  std::string tensor_name(int index) const;
  void check_counts();
  void enter(const SubGraph& graph);
  void find_int32_codes();
  void find_signals();
  void read_operations();
  Operation read_operation(const Operator& record, size_t index) const;
  BuiltinOperator code_of(const Operator& record) const;
  bool is_zero(const SubGraph& graph, int index) const;  // of a constant
  std::vector<int> operands(const flatbuffers::Vector<int32_t>* ids, const std::string& place) const;
  void read_inputs();
  Value input_value(int id);
  ValueId stand_in(int id);
  void find_batch();
  void find_open_axes(int id);
  void convert(Operation& op);
  bool compute_constant(const Operation& op, Node& node);
  void log_change(const Operation& op, size_t steps);
  void check_types(const Operation& op, const Node& node);
  void check_outputs(const Operation& op);
  bool is_result(int tensor) const;  // of the network
  void read_outputs();
  void name_bindings();
  void describe();
  std::string problem(const Operation& op, std::string what) const;

  // tensors.cc
  Value make_value(int tensor) const;  // name, type and quantizer; throws kUnsupported
  std::optional<Quantizer> make_quantizer(int index, ElementType stored) const;
  bool has_data(int tensor) const;
  bool has_scale(int tensor) const;
  std::shared_ptr<const std::vector<uint8_t>> data_of(int tensor);
  std::shared_ptr<const std::vector<uint8_t>> unpacked(int tensor, uint64_t codes);
  ValueId constant(int tensor);
  ValueId made(int tensor);  // its value, if it has one: a constant, rows joined
  ValueId join_rows(int tensor);
  bool is_list(int tensor) const;
  void bind(const Operation& op, int tensor, const Argument& argument);
  void check_row(const Operation& op, const Value& declared, const Run& run) const;
  void check_alike(const Operation& op, const Value& declared, const Value& found) const;
  std::vector<int64_t> dims_of(int tensor) const;  // as in the file
  void check_limits(const std::vector<int64_t>& dims,
                    const std::string& place) const;  // at least one element, fewer than 2^31
  std::string unique(const std::string& name);

  std::span<const uint8_t> bytes_;
  std::vector<uint8_t> aligned_;  // a copy, where the caller's bytes are not aligned
  std::string name_;
  ImportOptions options_;
  const Model* model_ = nullptr;
  Scope scope_;
  Graph graph_;
  int64_t file_batch_ = 0;
  bool batchable_ = false;  // axis 0 of all inputs is a batch
  bool same_batch_ = true;  // it has the size that the file gives it
  std::map<uint32_t, std::shared_ptr<const std::vector<uint8_t>>> buffers_;
  std::map<std::pair<uint32_t, uint64_t>, std::shared_ptr<const std::vector<uint8_t>>> unpacked_;  // by how many codes
  std::map<std::string, ValueId> variables_;                                                       // by name
  std::map<std::pair<const SubGraph*, int>, ValueId> constants_;  // tensors of a graph, which may be called often
  uint64_t copied_bytes_ = 0;
  int64_t called_operators_ = 0;
  std::unordered_map<std::string, int> names_;  // how often a name was taken
  std::vector<std::string> problems_;
};

// The file, which begins at a multiple of 16; refuses one that is damaged.
const Model& verified_model(std::span<const uint8_t> bytes, const std::string& name);

using Convert = void (*)(Importer& importer, Operation& op);
struct Converter {
  BuiltinOperator code;
  Convert convert;
};
std::span<const Converter> matmul_converters();
std::span<const Converter> pointwise_converters();
std::span<const Converter> move_converters();
std::span<const Converter> slice_converters();
std::span<const Converter> resize_converters();
std::span<const Converter> space_converters();
std::span<const Converter> transposed_converters();
std::span<const Converter> recurrent_converters();
std::span<const Converter> variable_converters();
std::span<const Converter> rnn_converters();
std::span<const Converter> repeat_converters();
std::span<const Converter> whole_converters();
std::span<const Converter> control_converters();
std::span<const Converter> place_converters();
std::span<const Converter> order_converters();
std::span<const Converter> volume_converters();
std::span<const Converter> dynamic_converters();
std::span<const Converter> angle_converters();
std::span<const Converter> detection_converters();

// matmul.cc: the window of a step over x [n, h, w, c].
struct WindowSizes {
  int64_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
};
void set_window(Importer& importer, const Operation& op, Node& node, const Value& x, const WindowSizes& s,
                Padding padding);

// matmul.cc: operands 1 and `slot` of a layer with weights, checked, and how it is quantized by the types of its
// operands.
ValueId matmul_weights(Importer& importer, const Operation& op, ValueId x, size_t rank);
ValueId matmul_bias(Importer& importer, const Operation& op, size_t slot, ValueId x, ValueId w);
void set_matmul_policy(Importer& importer, Operation& op, ValueId x, ValueId w, bool activation_zero);

// uint8.cc: weights of uint8 as int8, or as int16, which the others make int8 with more of the input: channels
// of x and w, or rows of the depthwise step's x and of its filter w.
ValueId uint8_weights(Importer& importer, const Operation& op, ValueId w, bool hybrid);
void split_channels(Importer& importer, Operation& op, ValueId& x, ValueId& w);
void split_rows(Importer& importer, Operation& op, ValueId& w, Node& node);

// pointwise.cc: `function`, a Reduce::Function, over the axes of input 1.
void reduce_over_axes(Importer& importer, Operation& op, uint32_t function);

// What is known while reading; true if the operator was one of these: lists of integers, cut and joined; integers and
// bools that are computed of stored ones, and fillings; lists of rows in the body of a loop.
bool fold_shape_arithmetic(Importer& importer, Operation& op);
bool fold_integers(Importer& importer, Operation& op);
bool note_rows(Importer& importer, Operation& op);

// order.cc: an operator on integers, or on bools, of several steps; false if it is another.
bool convert_whole(Importer& importer, Operation& op);

// dynamic.cc: a slice from a place that only a run knows; false if the place is stored.
bool slice_at_run_time(Importer& importer, Operation& op);
bool strided_slice_at_run_time(Importer& importer, Operation& op);

// spectrum.cc: an operator that reads or writes complex numbers; false if it is another.
bool convert_complex(Importer& importer, Operation& op);

// signal.cc: a Signal operator, or one that reads or writes such numbers and is not as it looks; false if it is
// another.
bool convert_signal(Importer& importer, Operation& op);

// rows.cc: rows begin .. begin + size - 1 of `from` behind those of `to`; no rows, of the shape of others.
void append(Rows& to, const Rows& from, int64_t begin, int64_t size);
Rows none_like(const Rows& rows);
bool is_same_but_for_rows(const std::vector<int64_t>& a, const std::vector<int64_t>& b);
// A custom operator on TensorFlow's lists; false if it is another.
bool convert_list(Importer& importer, Operation& op);
// detection.cc: the custom operator that decodes and selects boxes; false if it is another.
bool convert_detection(Importer& importer, Operation& op);

// y has the codes of x, though its scale is another: what LiteRT's moves do, where the converter did not see to it.
void emit_same_codes(Importer& importer, Operation& op, ValueId x, ValueId y);
ValueId with_output_codes(Importer& importer, Operation& op, ValueId x);  // x, or its codes as those of output 0

// Of a constant along `axis`: taken by stored indices.
void gather_stored(Importer& importer, Operation& op, int axis);

std::string dims_text(const std::vector<int64_t>& dims);

}  // namespace nacre::tools::tflite
