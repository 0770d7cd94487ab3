// Declarations that the parts of the TensorFlow Lite importer share. Private to tools/importers/tflite.
//
//   file.h         the file: its model, the data of its buffers, its problems
//   tensors.h      makes values of tensors: types, quantizers, constants
//   reader.h       reads graphs: order of operators, inputs and outputs, batch
//   nodes.cc       operands and nodes, which the converters below use
//   calls.h        graphs that are called, by WHILE, IF, STABLEHLO_COMPOSITE (control.cc); lists of loops (rows.cc)
//   variables.h    variables that one run leaves to the next; VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, CALL_ONCE
//   front_end.h    complex numbers (spectrum.cc), and those of the audio front end (signal.cc)
//   matmul.cc      CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, BATCH_MATMUL, pools, REDUCE_MAX;  angle.cc: ATAN2
//   pointwise.cc   arithmetic, comparisons, SELECT, functions, activations, softmaxes, reductions, QUANTIZE, CAST, ..
//   move.cc        RESHAPE and similar ones, TRANSPOSE, CONCATENATION, PACK, PAD, SHAPE
//   resize.cc      RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR
//   space.cc       DEPTH_TO_SPACE, SPACE_TO_DEPTH, SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND
//   transposed.cc  TRANSPOSE_CONV, CONV_3D_TRANSPOSE
//   uint8.cc       weights of uint8
//   recurrent.cc   UNIDIRECTIONAL_SEQUENCE_LSTM, BIDIRECTIONAL_SEQUENCE_LSTM, SVDF
//   rnn.cc         UNIDIRECTIONAL_SEQUENCE_RNN
//   slice.cc       SLICE, STRIDED_SLICE, SPLIT, SPLIT_V, UNPACK, REVERSE_V2
//   repeat.cc      TILE, BROADCAST_TO, GATHER of stored indices, LOGICAL_AND, _OR, _NOT, ONE_HOT, ADD_N, ..
//   gather_scatter.cc  GATHER, GATHER_ND, SCATTER_ND, segments and similar ones, which take or put rows at indices
//   order.cc       TOPK_V2, BUCKETIZE, RIGHT_SHIFT, and operators on integers;  whole_numbers.cc: FLOOR_MOD, CUMSUM, ..
//   volume.cc      CONV_3D, LOCAL_RESPONSE_NORMALIZATION
//   dynamic.cc     slices and DYNAMIC_UPDATE_SLICE at positions known only at run time;  detection.cc: box selection
//   spectrum.cc    RFFT2D of one axis, and RESHAPE, REAL, IMAG, COMPLEX_ABS of its result
//   signal.cc      TensorFlow Lite Micro's Signal operators, and operators that read their numbers
//   fold.cc        integers, bools and filled tensors that can be computed while reading
//   lists.cc       TensorFlow's lists: FlexTensorListReserve and similar ones
//   metadata.cc    labels and normalization, which the file stores beside the network
//
// A quantized tensor is a float32 value with a Quantizer, and constants keep their codes. QUANTIZE and DEQUANTIZE of
// activations, which leave real values unchanged, become copies. apply_policy makes conversions of them.
#pragma once

#include <limits>
#include <unordered_map>

#include "tools/importers/tflite/calls.h"
#include "tools/importers/tflite/front_end.h"
#include "tools/importers/tflite/variables.h"

namespace nacre::tools::tflite {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A graph of the file while it is read: the main graph, or one that an operator calls.
struct Scope {
  Scope(File& file, const SubGraph& graph, int graphs_around)
      : tensors(file, graph), depth(graphs_around), values(tensors.size(), kNone), written(tensors.size()) {}
  bool is_result(int tensor) const;  // true if the tensor is an output of the network

  Tensors tensors;
  int depth;                                // 0 in the main graph
  std::vector<ValueId> values;              // values of the tensors; kNone if not made yet
  std::vector<bool> written;                // tensors that an operator has written
  std::map<int, Rows> rows = {};            // rows of tensors without a value
  std::map<int, std::string> handles = {};  // names of the variables of tensors that are handles
  FrontEnd front_end = {};
};

// metadata.cc: returns keys and values for the model file: labels, labels.NAME, input.NAME.mean, input.NAME.std.
std::vector<std::pair<std::string, std::string>> read_metadata(const Model& model, std::span<const uint8_t> file,
                                                               const std::string& place, const Graph& graph);

class Importer {
 public:
  Importer(File& file, Reader& reader);
  Importer(const Importer&) = delete;

  File& file() { return file_; }
  Scope& scope() { return scope_; }
  const Tensors& tensors() const { return scope_.tensors; }  // tensors of the graph in scope
  Calls& calls() { return calls_; }
  Variables& variables() { return variables_; }
  Graph& graph() { return graph_; }
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }
  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }

  // These functions return operands. An input must exist: a constant, an input of the graph, or an earlier operator's
  // output.
  ValueId input(const Operation& op, size_t i);
  ValueId real_input(const Operation& op, size_t i);              // refuses all but float32
  ValueId whole_or_real_input(const Operation& op, size_t i);     // accepts float32, int32 and int64
  std::vector<int64_t> integers(const Operation& op, size_t i);   // numbers of a constant input, such as axes
  std::vector<int64_t> file_dims(const Operation& op, size_t i);  // dims of an input in the file, before --batch
  ValueId made(int tensor);                                       // the tensor's value, kNone if none; joins its rows

  ValueId output(const Operation& op, size_t i = 0);         // the output's value, still without dims
  ValueId between(ValueId like, const std::string& suffix);  // a new value of the same type and quantizer, without dims
  void define(const Operation& op, Value constant);          // makes output 0 this constant
  void define_integers(const Operation& op, const std::vector<int64_t>& numbers, const std::vector<int64_t>& dims);
  std::string unique(const std::string& name);

  // Adds the node with the name and index of the operator's layer, or computes it now if compute_constant can.
  void emit(Operation& op, Node node);
  // Adds the node with a fused activation before its only output `y`, or output 0 of the operator if `y` is kNone.
  void emit_activated(Operation& op, Node node, Activation activation, ValueId y = kNone);
  // Adds a node that makes y of x with other dims.
  void emit_reshape(Operation& op, ValueId x, std::vector<int64_t> dims, ValueId y);
  Policy& policy(Operation& op);

  template <class T>
  const T& options(const Operation& op) const {
    const T* options = op.record->template builtin_options_as<T>();
    if (options == nullptr) bad(op, "has no options of its kind");
    return *options;
  }

  // Returns an axis in [-rank, rank) as one in [0, rank).
  int axis(const Operation& op, int64_t axis, size_t rank) const;
  int integer(const Operation& op, int64_t number, const char* what) const;  // throws if |number| > kMaxSize

  [[noreturn]] void unsupported(const Operation& op, const std::string& why) const { file_.unsupported(op.name, why); }
  [[noreturn]] void bad(const Operation& op, const std::string& fact) const { file_.bad(op.place(), fact); }

 private:
  File& file_;
  Scope scope_;
  Graph graph_;
  Calls calls_;
  Variables variables_;
  std::map<std::pair<const SubGraph*, int>, ValueId> constants_;  // by tensor of a graph, which may be called often
  std::unordered_map<std::string, int> names_;                    // how often each name was used
};

using Convert = void (*)(Importer& importer, Operation& op);
struct Converter {
  BuiltinOperator code;
  Convert convert;
};
using Converters = std::span<const Converter>;
Converters matmul_converters(), pointwise_converters(), move_converters(), slice_converters(), resize_converters(),
    space_converters(), transposed_converters(), recurrent_converters(), variable_converters(), rnn_converters(),
    repeat_converters(), whole_converters(), control_converters(), place_converters(), order_converters(),
    volume_converters(), dynamic_converters(), angle_converters(), detection_converters();

// matmul.cc: sets stride, dilation and padding of a node over x [n, h, w, c].
struct WindowSizes {
  int64_t kernel_h, kernel_w, stride_h, stride_w, dilation_h, dilation_w;
};
void set_window(Importer& importer, const Operation& op, Node& node, const Value& x, const WindowSizes& s,
                Padding padding);

// matmul.cc: these functions check and return operands 1 and `slot` of a layer with weights, and set the layer's
// quantization by the types of its operands.
ValueId matmul_weights(Importer& importer, const Operation& op, ValueId x, size_t rank);
ValueId matmul_bias(Importer& importer, const Operation& op, size_t slot, ValueId x, ValueId w);
void set_matmul_policy(Importer& importer, Operation& op, ValueId x, ValueId w, bool activation_zero);

// uint8.cc: uint8_weights() returns weights as int8, or as int16 if int8 cannot hold them. split_channels() and
// split_rows() then make them int8, and repeat channels of x and w, or rows of a depthwise convolution's x and filter
// w.
ValueId uint8_weights(Importer& importer, const Operation& op, ValueId w, bool hybrid);
void split_channels(Importer& importer, Operation& op, ValueId& x, ValueId& w);
void split_rows(Importer& importer, Operation& op, ValueId& w, Node& node);

// pointwise.cc: reduces over the axes of input 1 by `function`, a Reduce::Function.
void reduce_over_axes(Importer& importer, Operation& op, uint32_t function);

// These functions compute an operator while reading, or return false. The first cuts and joins lists of integers. The
// second computes integers and bools from stored ones, and filled tensors. The third only notes which rows a slice, a
// concatenation or an update has, in a graph that is called.
bool fold_shape_arithmetic(Importer& importer, Operation& op);
bool fold_integers(Importer& importer, Operation& op);
bool note_rows(Importer& importer, Operation& op);

// order.cc: converts an operator on integers or bools to several nodes. Returns false for other operators.
bool convert_whole(Importer& importer, Operation& op);

// dynamic.cc: converts a slice at a position known only at run time. Returns false if the position is stored.
bool slice_at_run_time(Importer& importer, Operation& op);
bool strided_slice_at_run_time(Importer& importer, Operation& op);

// spectrum.cc: converts an operator that reads or writes complex numbers. Returns false for other operators.
bool convert_complex(Importer& importer, Operation& op);

// signal.cc: converts a Signal operator, or one that reads or writes the front end's numbers. Returns false for others.
bool convert_signal(Importer& importer, Operation& op);

// lists.cc: converts a custom operator on TensorFlow's lists. Returns false for other operators.
bool convert_list(Importer& importer, Operation& op);
// detection.cc: converts the custom operator that decodes and selects boxes. Returns false for other operators.
bool convert_detection(Importer& importer, Operation& op);

// Gives y the codes of x although its scale differs. LiteRT's moves do that if the converter left the scales unequal.
void emit_same_codes(Importer& importer, Operation& op, ValueId x, ValueId y);
ValueId with_output_codes(Importer& importer, Operation& op, ValueId x);  // x, or its codes with output 0's scale

// Joins parts along an axis until at most 16 are left, because a node has few operands.
std::vector<ValueId> in_groups(Importer& importer, Operation& op, std::vector<ValueId> parts, int axis, ValueId like);

struct Cut {  // `size` indices of an axis from `begin` on, `step` apart
  int64_t begin, size, step = 1;
};
// Cuts x. The result is y, or a new value if y is kNone.
ValueId cut_axis(Importer& importer, Operation& op, ValueId x, int axis, const Cut& cut, const std::string& suffix,
                 ValueId y = kNone);

// Gathers along `axis` by stored indices.
void gather_stored(Importer& importer, Operation& op, int axis);

}  // namespace nacre::tools::tflite
