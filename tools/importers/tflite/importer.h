// Declarations that the parts of the TensorFlow Lite importer share. Private to tools/importers/tflite.
//
//   file.h         the file: its model, the data of its buffers, what is wrong with it
//   tensors.h      tensors become values: types, quantizers, constants
//   reader.h       graphs are read: order of operators, inputs and outputs, batch
//   nodes.cc       operands and nodes, which the converters below use
//   calls.h        graphs that are called, by WHILE, IF, STABLEHLO_COMPOSITE (control.cc); lists of loops (rows.cc)
//   variables.h    what one run leaves for the next; VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, CALL_ONCE
//   front_end.h    complex numbers (spectrum.cc), and those of the audio front end (signal.cc)
//   matmul.cc      CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED, BATCH_MATMUL, pools, REDUCE_MAX
//   pointwise.cc   arithmetic, functions, activations, PRELU, softmaxes, reductions, QUANTIZE, DEQUANTIZE, CAST
//   move.cc        RESHAPE and its kin, TRANSPOSE, CONCATENATION, PACK, PAD, SHAPE
//   resize.cc      RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR
//   space.cc       DEPTH_TO_SPACE, SPACE_TO_DEPTH, SPACE_TO_BATCH_ND, BATCH_TO_SPACE_ND
//   transposed.cc  TRANSPOSE_CONV, CONV_3D_TRANSPOSE
//   uint8.cc       weights of uint8
//   recurrent.cc   UNIDIRECTIONAL_SEQUENCE_LSTM, BIDIRECTIONAL_SEQUENCE_LSTM, SVDF
//   rnn.cc         UNIDIRECTIONAL_SEQUENCE_RNN
//   slice.cc       SLICE, STRIDED_SLICE, SPLIT, SPLIT_V, UNPACK, REVERSE_V2
//   repeat.cc      TILE, BROADCAST_TO, GATHER of stored indices, LOGICAL_AND, _OR, _NOT, ONE_HOT, ADD_N
//   gather_scatter.cc  GATHER, GATHER_ND, SCATTER_ND, segments and their kin: rows by their places
//   order.cc       TOPK_V2, BUCKETIZE, and integers where the engine has no step of their own
//   volume.cc      CONV_3D, LOCAL_RESPONSE_NORMALIZATION
//   dynamic.cc     SLICE, STRIDED_SLICE and DYNAMIC_UPDATE_SLICE at places that only a run knows
//   spectrum.cc    RFFT2D of one axis, and RESHAPE, REAL, IMAG, COMPLEX_ABS of what it gives
//   signal.cc      TensorFlow Lite Micro's Signal operators, and what reads their numbers
//   fold.cc        integers, bools and fillings that are known while reading
//   lists.cc       the lists of TensorFlow: FlexTensorListReserve and its kin
//   metadata.cc    labels and normalisation, which stand beside the network
//
// The graph is real-valued: a quantized tensor is a float32 value with a Quantizer, constants keep their codes.
// QUANTIZE and DEQUANTIZE, which leave real values as they are, become copies; apply_policy makes steps of them.
#pragma once

#include <limits>
#include <unordered_map>

#include "tools/importers/tflite/calls.h"
#include "tools/importers/tflite/front_end.h"
#include "tools/importers/tflite/variables.h"

namespace nacre::tools::tflite {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

// A graph of the file while it is read: the main one, or one that an operator calls.
struct Scope {
  Scope(File& file, const SubGraph& graph, int graphs_around)
      : tensors(file, graph), depth(graphs_around), values(tensors.size(), kNone), written(tensors.size()) {}
  bool is_result(int tensor) const;  // of the network

  Tensors tensors;
  int depth;                                // 0: the main graph
  std::vector<ValueId> values;              // of tensors; kNone: not yet
  std::vector<bool> written;                // by an operator
  std::map<int, Rows> rows = {};            // of tensors without a value
  std::map<int, std::string> handles = {};  // tensors that are handles: the variable's name
  FrontEnd front_end = {};
};

// metadata.cc: keys and values for the model file: labels, input.NAME.mean, input.NAME.std.
std::vector<std::pair<std::string, std::string>> read_metadata(const Model& model, std::span<const uint8_t> file,
                                                               const std::string& place, const Graph& graph);

class Importer {
 public:
  Importer(File& file, Reader& reader);
  Importer(const Importer&) = delete;

  File& file() { return file_; }
  Scope& scope() { return scope_; }
  const Tensors& tensors() const { return scope_.tensors; }  // of the graph in scope
  Calls& calls() { return calls_; }
  Variables& variables() { return variables_; }
  Graph& graph() { return graph_; }
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }
  const Value& value(ValueId id) const { return graph_.values[size_t(id)]; }

  // Operands. An input is a value that exists: a constant, an input of the graph or what an operator before gave out.
  ValueId input(const Operation& op, size_t i);
  ValueId real_input(const Operation& op, size_t i);              // refuses integer data
  ValueId whole_or_real_input(const Operation& op, size_t i);     // float32, int32 or int64
  std::vector<int64_t> integers(const Operation& op, size_t i);   // of a constant that says how, not what
  std::vector<int64_t> file_dims(const Operation& op, size_t i);  // of an input, before --batch
  ValueId made(int tensor);                                       // its value, if it has one: a constant, rows joined

  ValueId output(const Operation& op, size_t i = 0);         // its value, without dims
  ValueId between(ValueId like, const std::string& suffix);  // a value of the same type and quantizer, without dims
  void define(const Operation& op, Value constant);          // output 0 is this constant
  void define_integers(const Operation& op, const std::vector<int64_t>& numbers, const std::vector<int64_t>& dims);
  std::string unique(const std::string& name);

  // The node gets name and layer; the shapes of its outputs are inferred.
  void emit(Operation& op, Node node);
  // Emits the node with a fused activation before its one output: `y`, or output 0 of the operator if `y` is kNone.
  void emit_activated(Operation& op, Node node, Activation activation, ValueId y = kNone);
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

  [[noreturn]] void unsupported(const Operation& op, const std::string& why) const { file_.unsupported(op.name, why); }
  [[noreturn]] void bad(const Operation& op, const std::string& fact) const { file_.bad(op.place(), fact); }

 private:
  File& file_;
  Scope scope_;
  Graph graph_;
  Calls calls_;
  Variables variables_;
  std::map<std::pair<const SubGraph*, int>, ValueId> constants_;  // tensors of a graph, which may be called often
  std::unordered_map<std::string, int> names_;                    // how often a name was taken
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

// Computes an operator while reading; true if it was one of these: lists of integers, cut and joined; integers and
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

// A custom operator on TensorFlow's lists; false if it is another.
bool convert_list(Importer& importer, Operation& op);
// detection.cc: the custom operator that decodes and selects boxes; false if it is another.
bool convert_detection(Importer& importer, Operation& op);

// y has the codes of x, though its scale is another: what LiteRT's moves do, where the converter did not see to it.
void emit_same_codes(Importer& importer, Operation& op, ValueId x, ValueId y);
ValueId with_output_codes(Importer& importer, Operation& op, ValueId x);  // x, or its codes as those of output 0

// The parts, one after the other along an axis, as at most 16: operands of a step are few.
std::vector<ValueId> in_groups(Importer& importer, Operation& op, std::vector<ValueId> parts, int axis, ValueId like);

struct Cut {  // `size` indices of one axis from begin on, `step` apart
  int64_t begin, size, step = 1;
};
// The cut of x: y, or where that is kNone a value of its own.
ValueId cut_axis(Importer& importer, Operation& op, ValueId x, int axis, const Cut& cut, const std::string& suffix,
                 ValueId y = kNone);

// Gathers from a constant along `axis`, by stored indices.
void gather_stored(Importer& importer, Operation& op, int axis);

}  // namespace nacre::tools::tflite
