// Declarations that the parts of the Keras importer share. Private to tools/importers/keras.
//
//   file.cc                 the file: its form, the model in it, inputs and outputs, what is not supported
//   archive.cc              the members of a .keras archive;  hdf5*.cc: HDF5, in a process of its own
//   stored.cc               where a file stores its numbers;  weights.cc: which variables belong to which layer
//   settings.cc             which settings are used, and which are refused;  setting_rows.cc: its tables
//   training.cc             loss, optimizer and its state;  trainable.cc: the order of the variables that train
//   order.cc                numbers of the calls of a model, and the order in which Keras runs them
//   network.cc              Functional, Sequential and nested models: which layer is called with what
//   call.cc                 one call of a layer: its configuration, its operands, its nodes
//   dense.cc                Dense, EinsumDense, Embedding, ReversibleEmbedding, Masking
//   window.cc               convolutions;  transpose.cc: transposed ones;  pool.cc: pools
//   volume.cc               convolutions and pools over volumes;  image.cc: resizing;  contrast.cc: contrast of images
//   activation.cc           activations, as layers and as names;  norm.cc: normalizations
//   move.cc                 Reshape and similar layers, padding, cropping, dropout;  merge.cc: Add and similar layers
//   recurrent.cc            LSTM, GRU, SimpleRNN, RNN, ConvLSTM, Bidirectional, TimeDistributed
//   cell.cc                 recurrences that are written out step by step;  conv_lstm.cc: those of images
//   mask.cc                 which steps of a sequence count;  encode.cc: categories, bins;  signal.cc: spectra
//   functions/functions.cc  functions of keras.ops;  attention.cc: MultiHeadAttention and similar layers
//   policy.cc               dtype policies;  codes.cc: int8 and int4 kernels, float8 scales
//
// Data are channels last, as in the graph. A layer may become several nodes, which share its entry in Graph::layers.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tools/base/error.h"
#include "tools/base/json.h"
#include "tools/importers/importer.h"
#include "tools/importers/keras/hdf5.h"

namespace nacre::tools::keras {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr int64_t kMostSize = int64_t{1} << 28;  // largest size of an axis: the engine's limit

// Groups at the top of a file that hold the optimizer's state.
inline const std::vector<std::string> kOptimizerGroups = {"optimizer", "optimizer_weights"};

// The members of a .keras file that are read (archive.cc).
struct Archive {
  std::string config, metadata;
  std::vector<uint8_t> weights;
};
Archive read_archive(std::span<const uint8_t> bytes, const std::string& place);
Json parse_config(const std::string& text, const std::string& place);  // throws if it is no JSON or too deep

// A kernel that the file holds as codes: its numbers, and for each number its code, scale and zero point.
struct CodedKernel {
  Hdf5Dataset numbers;
  std::vector<float> codes, scale, zero;  // zero may be empty
  Quantization quantization = Quantization::kNone;
  int64_t block = 0;  // rows that share a scale; 0 if all rows do
};

// Scales and amax histories that float8 training keeps of a layer's input, kernel and gradient.
struct Float8State {
  struct Of {
    std::vector<float> scale, history;
    float amax() const;  // the amax from which Keras's rule makes the scale; 0 if there is none
  };
  Of x, w, y;
};

// The variables of a layer, of a part of it or of a model, in Keras's order. A file has them in one of two ways:
//
//   by place   <path>/vars/<index>, parts and layers in groups below       .keras, .weights.h5
//   by list    the names in attribute weight_names of the layer's group    .h5
class Weights {
 public:
  Weights() = default;
  Weights(const Hdf5File& file, const std::string& place);  // makes those of the whole model

  size_t count() const { return paths_.size(); }
  const Hdf5Dataset& operator[](size_t i) const;                    // throws if it is missing
  const std::string& path(size_t i) const { return paths_.at(i); }  // unique in the file
  // Returns a sublayer's variables: below the first of `names`; in a list by `names`, or else `size` from `first` on.
  Weights part(const std::vector<std::string>& names, size_t first, size_t size) const;
  // Returns these variables with `kernel`, made of variable `at`, as variable 0, and the bias, if any, as variable 1.
  Weights with_kernel(std::shared_ptr<const CodedKernel> kernel, size_t at, std::optional<size_t> bias) const;
  const CodedKernel* coded() const { return kernel_.get(); }  // null if variable 0 was not decoded
  // Returns the variables of each layer of a model. `layers` holds {name, class} in order.
  std::vector<Weights> layers(const std::vector<std::pair<std::string, std::string>>& layers) const;

 private:
  Weights at(const std::string& path) const;
  Weights named(const std::string& layer) const;

  const Hdf5File* file_ = nullptr;
  std::string place_, path_;
  bool by_list_ = false, root_ = false;
  std::vector<std::string> paths_;
  std::shared_ptr<const CodedKernel> kernel_;  // replaces variable 0
};

class Importer;

// One call of a layer. A layer that is called several times has the same path and weights in each.
struct Call {
  Importer* importer = nullptr;
  std::string class_name, name, path;  // path includes the names of the models around it
  std::string module;                  // "keras.layers"; "keras.src.ops.numpy" of a function of keras.ops
  Json config, args, kwargs;           // args as the file has them
  Weights weights;
  bool frozen = false;                                  // true if its variables do not train
  std::vector<ValueId> inputs;                          // the tensors among args, in order
  std::map<std::string, std::vector<ValueId>> keyword;  // the tensors among kwargs
  std::vector<ValueId> outputs;
  mutable std::set<std::string> read;  // keys of the configuration and keyword arguments that the converter has read

  // These functions read the configuration. They return `otherwise` if the key is absent or null.
  const Json* find(const char* key) const;
  int64_t integer(const char* key, int64_t otherwise) const;
  float real(const char* key, float otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::vector<int64_t> integers(const char* key, size_t count, int64_t otherwise) const;  // one number stands for all
  std::vector<int64_t> list(const char* key) const;
  bool given(const char* key) const { return find(key) != nullptr; }
  bool called_with(const char* key) const;  // true for a keyword argument that is neither null nor false

  Value& value(ValueId id) const;
  const std::vector<int64_t>& dims(ValueId id) const { return value(id).dims; }
  int rank(ValueId id) const { return int(dims(id).size()); }
  ValueId input(size_t i = 0) const;      // input i as reals: integers are cast
  ValueId raw_input(size_t i = 0) const;  // input i as it is
  int axis(int64_t axis, int rank) const;

  // step() makes a node named after the layer. The others add nodes or constants, and return the value that results.
  Node step(Op op, std::vector<ValueId> operands) const;
  ValueId emit(Node node, ElementType type = ElementType::kFloat32) const;
  ValueId emit(Op op, std::vector<ValueId> operands) const { return emit(step(op, std::move(operands))); }
  ValueId binary(uint32_t function, ValueId a, ValueId b) const;
  ValueId compare(uint32_t function, ValueId a, ValueId b) const;           // a bool
  ValueId select(ValueId condition, ValueId a, ValueId b) const;            // a where `condition` is true, else b
  ValueId cast(ValueId x, ElementType type = ElementType::kFloat32) const;  // x itself if it has that type
  ValueId unary(uint32_t function, ValueId x, float alpha = 0, float gamma = 0) const;
  ValueId clamp(ValueId x, float low, float high) const;
  ValueId reshape(ValueId x, const std::vector<int64_t>& dims) const;
  ValueId transpose(ValueId x, const std::vector<int>& perm) const;  // x itself if nothing moves
  ValueId concat(const std::vector<ValueId>& parts, int axis) const;
  ValueId slice(ValueId x, int axis, int64_t begin, int64_t size, int64_t step = 1) const;
  ValueId mean(ValueId x, const std::vector<int>& axes, bool keep) const;
  ValueId reduce(uint32_t function, ValueId x, const std::vector<int>& axes, bool keep) const;
  ValueId repeat(ValueId x, const std::vector<int64_t>& times) const;  // axes of size 1 become `times` long
  ValueId scaled(ValueId x, float factor) const;
  ValueId shifted(ValueId x, float term) const;
  ValueId number(float value) const;  // a constant [1]
  ValueId softmax(ValueId x, int axis) const;
  ValueId pad(ValueId x, const std::vector<int64_t>& before, const std::vector<int64_t>& after, float value = 0) const;

  ValueId stored(const Json& array) const;  // an array of the configuration

  // Constants: variable() makes one of variable i as `make` arranges it, once per `form`.
  using Arrange = std::function<std::vector<float>(const std::vector<float>&)>;
  ValueId variable(size_t i, const std::string& label, const std::string& form = "", std::vector<int64_t> dims = {},
                   const Arrange& make = nullptr) const;
  ValueId constant(const std::string& label, std::vector<int64_t> dims, const std::vector<float>& numbers) const;
  void spend(int64_t elements) const;
  void need_dims(size_t i, const std::vector<int64_t>& dims) const;  // throws if variable i has other dims

  // Returns a call of a sublayer, whose nodes have an entry of their own in Graph::layers.
  Call part(const std::string& class_name, const std::string& name, const Json& config, Weights weights) const;
  void note(const std::string& what) const;  // adds a line to the log

  [[noreturn]] void unsupported(const std::string& reason) const;
  [[noreturn]] void bad(const std::string& fact) const;
  void refuse(const std::string& setting, const std::string& fact) const;  // not if the user ignores `setting`
};

using Convert = void (*)(Call& call);
struct Converter {
  const char* class_name;
  Convert convert;
};
std::span<const Converter> dense_converters();
std::span<const Converter> window_converters();
std::span<const Converter> transpose_converters();
std::span<const Converter> pool_converters();
std::span<const Converter> activation_converters();
std::span<const Converter> norm_converters();
std::span<const Converter> move_converters();
std::span<const Converter> merge_converters();
std::span<const Converter> recurrent_converters();
std::span<const Converter> attention_converters();
std::span<const Converter> volume_converters();
std::span<const Converter> image_converters();
std::span<const Converter> contrast_converters();
std::span<const Converter> encode_converters();
std::span<const Converter> signal_converters();
const Converter* find_converter(const std::string& class_name);
bool is_function(const std::string& module);                          // true for a module of keras.ops
bool is_function(const std::string& class_name, const Json& config);  // for an .h5 file, which does not give the module
const Converter* find_function(const std::string& class_name);

// Applies to x the activation, a function or a layer, that `key` of the configuration names (activation.cc).
ValueId activated(const Call& call, ValueId x, const char* key = "activation");
std::string activation_name(const Call& call, const char* key, const std::string& otherwise);

// mask.cc. A mask is a bool per step of a sequence, [batch, time]. Keras carries it beside the sequence's values.
ValueId as_condition(const Call& call, ValueId x);                      // x as bool: a number is true if it is not 0
ValueId mask_of(const Call& call, size_t input, const char* argument);  // the given mask, or the input's; or kNone
ValueId mask_left(const Call& call, ValueId x);          // the mask of x, unless take_masks() took it; or kNone
ValueId either(const Call& call, ValueId a, ValueId b);  // true where a or b is true
std::vector<ValueId> masks_behind(const Call& call);     // the masks of the outputs, kNone for none
void name_masks(Call& call);                             // names the masks that are given by position
void give_masks(const Call& call);                       // gives masks to a nested model's inputs
void take_masks(const Call& call);                       // takes operands' masks, as MultiHeadAttention does
float hidden_score(const Call& call);  // the number with which Keras replaces masked scores, by the layer's type

// cell.cc. `steps` is the output at all steps [batch, time, h], `last` at the last. `states` are the final h, then c.
struct Sequence {
  ValueId steps = kNone, last = kNone;
  std::vector<ValueId> states = {};
};
struct Recurrence {
  std::vector<ValueId> states = {};  // initial states; empty if they are zeros
  ValueId mask = kNone;
  bool zero_masked = false;                 // masked steps give 0, else the output of the step before, at first 0
  bool want_states = false, begun = false;  // begun: has given states, and gives 0 until a step counts
};
ValueId reversed(const Call& call, ValueId x);  // x, reversed in time
ValueId last_step(const Call& call, ValueId x);
Sequence unrolled_cell(const Call& call, ValueId x, const Recurrence& r);
// Runs a recurrence that is written out: `step` returns the next states from those at a step.
using Step = std::function<std::vector<ValueId>(int64_t time, const std::vector<ValueId>& states)>;
Sequence unrolled(const Call& call, int64_t time, const Recurrence& r, const Step& step);
Sequence conv_lstm(const Call& call, ValueId x, const Recurrence& r);  // conv_lstm.cc
// recurrent.cc: runs an LSTM, GRU, SimpleRNN, ConvLSTM or RNN layer, or a cell of such a name, forward in time.
Sequence recurrence(const Call& call, ValueId x, const Recurrence& r);

// dense.cc: multiplies x [.., in] with variable `kernel` as a matrix [in, out], and adds a bias unless that is kNone.
ValueId dense(const Call& call, ValueId x, size_t kernel, int64_t in, int64_t out, ValueId bias);
void convert_einsum_dense(Call& call);

// policy.cc: a layer's dtype as JSON text, "" for float32 and integer types; its mode "int8", "int4/128", .. or "".
std::string source_policy(const Json& config);
std::string quantization_mode(const Json& config);
Json quantized(const std::string& mode);       // the dtype of a layer of that mode, made from float32
std::string compute_type(const Json& config);  // "float32", "float16", ..: Keras casts a layer's inputs to it
std::string source_name(const Json& config);   // the policy that was quantized: "float32", "mixed_bfloat16", ..
// How a quantized layer codes the rows of its input. row_codes() returns nullopt if the layer does not code them.
//
//   q = round(x high / (max |x| + epsilon)) within low .. high
struct RowCodes {
  float low = -127, high = 127, epsilon = 1e-7f;
  bool operator==(const RowCodes&) const = default;
};
std::optional<RowCodes> row_codes(const Call& call);
// codes.cc: returns the mode ("int8", ..) that a projection's variables show, "" if they are not quantized.
std::string stored_mode(const Weights& weights);
// Decodes the variables of an int8 or int4 layer into kernel and bias. Reads the scales of a float8 layer.
void decode_kernel(Call& call, const std::string& mode);
// Returns x rounded to the codes of its rows, if the layer codes rows but its policy (int4, int8/weights) does not.
ValueId coded_rows(const Call& call, ValueId x);
void attach_codes(const Call& call, ValueId weights, const CodedKernel& kernel, const Call::Arrange& make);

// Transposes a matrix [rows, columns] to [columns, rows].
std::vector<float> transposed(const std::vector<float>& matrix, int64_t rows, int64_t columns);

// Names a tensor of the model: output `tensor` of call `node` of a layer.
struct Reference {
  std::string layer;
  int64_t node = 0, tensor = 0;
  auto operator<=>(const Reference&) const = default;
};

class SavedTraining;

class Importer {
 public:
  Importer(const std::string& name, const ImportOptions& options, uint64_t file_bytes);
  ~Importer();

  Graph run(const Json& model, const Weights& weights, const std::string& version);

  // training.cc: resume() takes, before run(), what the file says of its training. keep_moments() keeps the moments of
  // a variable that became a parameter, arranged like the parameter.
  void resume(SavedTraining saved);
  void keep_moments(ValueId parameter, const std::string& variable, const std::vector<int64_t>& dims,
                    const Call::Arrange& make);

  // training.cc: keeps the momentum of a running mean or variance, and the decay that a penalty adds to a gradient.
  void keep_momentum(ValueId statistic, float momentum) { momenta_[statistic] = momentum; }
  void keep_decay(ValueId parameter, float decay) { decays_[parameter] += decay; }

  // training.cc: keep_float8() keeps a layer's float8 state. The others return the amax of a scale, 0 if not known.
  void keep_float8(const Call& call, float kernel_amax, Float8State state);
  float kernel_amax(const std::string& variable) const;
  float input_amax(const Call& call) const;

  // trainable.cc: is_frozen() returns whether the variables of the layer with this configuration do not train.
  // `inherited` says so of the model around it. keep_form() keeps a constant that a variable became.
  bool is_frozen(const Json& config, bool inherited, const std::string& path);
  void keep_form(const std::string& variable, int64_t stored_elements, ValueId made);

  // network.cc: converts a model, called on `inputs`. `path` ends with '/' if the model is a layer of another model.
  std::vector<ValueId> model(const Json& entry, const Weights& weights, std::vector<ValueId> inputs,
                             const std::string& path);
  // Converts a layer, or collects its problem.
  void convert(Call& call);
  void convert_inner(Call& call);  // converts a layer or model, and throws at a problem, which convert() collects

  Graph& graph() { return graph_; }
  const ImportOptions& options() const { return options_; }
  // Returns whether layers work as in training: not in inference, nor if Keras 2 calls them with training=False.
  bool trains() const { return options_.train && inferring_ == 0; }
  const std::string& name() const { return name_; }
  int layer_of(const Call& call);
  bool keras2() const { return version_.starts_with("2.") || version_.starts_with("1."); }
  std::map<std::string, ValueId>& variables() { return variables_; }
  std::map<ValueId, ValueId>& masks() { return masks_; }  // by the value that carries the mask
  std::set<ValueId>& taken() { return taken_; }           // values whose mask a layer took (take_masks)
  std::set<ValueId>& nested() { return nested_; }         // outputs of nested models, for mask_of()
  int& stepped() { return stepped_; }                     // number of layers around this one that run it once per step

 private:
  struct Entry {  // a layer of a model
    std::string class_name, name, module;
    Json config;
    std::vector<Json> nodes;
    int64_t first = 0;  // number of its first call: 1 for a model whose creation Keras counts as a call
    Weights weights;
    uint64_t bytes = 0;  // about what a copy of the configuration takes
  };
  struct Scope {                                      // the tensors of a model
    std::map<Reference, std::vector<ValueId>> known;  // outputs of a call; the key's tensor is 0
    std::string path;
  };

  struct Waiting {  // a call, and how many calls that it reads are not made yet
    const Entry* entry;
    size_t node, missing;
  };

  std::vector<Entry> entries(const Json& layers, const Weights& weights);
  std::vector<Reference> number_calls(std::vector<Entry>& all, const Json& of_model) const;
  void order_calls(std::vector<Waiting>& waiting, const std::vector<Reference>& outputs, const Json& config) const;
  void run_calls(Scope& scope, std::vector<Waiting> waiting);
  std::vector<ValueId> functional(const Json& config, std::vector<Entry> entries, std::vector<ValueId> inputs,
                                  const std::string& path);
  std::vector<ValueId> sequential(const Json& config, std::vector<Entry> entries, std::vector<ValueId> inputs,
                                  const std::string& path);
  void give_shapes(std::vector<std::pair<std::string, Json*>> inputs);
  ValueId add_input(const Entry& entry, const Json& shape);
  ValueId stand_in(const Json& shape, const Json& dtype);
  void find_batch(const Json& shape, const std::string& name);
  Call call_of(const Entry& entry, const std::string& path);
  void collect(const Json& json, const Scope& scope, const Call& call, std::vector<ValueId>& found);
  void read_operands(const Json& node, const Scope& scope, Call& call);
  const Converter& converter_of(const Call& call) const;
  void finish(Call& call, size_t values);
  void log_change(const Call& call, size_t steps) const;
  bool file_freezes(const Json& config, bool inherited) const;
  void list_trainable(const Json& model, const Weights& weights, bool frozen, std::vector<std::string>& all);
  void require_one_form();
  void require_patterns() const;  // checks the patterns of --unfreeze
  void require_frozen() const;    // checks that each pattern matches a frozen layer
  std::map<std::string, std::vector<float>> float8_state() const;
  void judge_masks();
  void finish_training(const Json& model);
  void problem(const std::string& text);

  std::string name_;
  const ImportOptions& options_;
  Graph graph_;
  std::string version_;
  std::map<std::string, int> layers_;         // by path
  std::map<std::string, ValueId> variables_;  // by path in the file, and form
  std::map<ValueId, ValueId> masks_;
  std::set<ValueId> taken_, nested_;
  std::map<std::string, std::pair<int64_t, std::vector<ValueId>>> forms_;  // by variable: elements, its constants
  std::set<std::string> unfrozen_;                                         // patterns that matched a frozen layer
  bool all_frozen_ = false, model_frozen_ = false;  // true if the file, or the model that is being read, is frozen
  std::map<std::string, float> kernel_amaxes_;      // by variable
  std::map<std::string, Float8State> float8_;       // by layer
  std::unique_ptr<SavedTraining> saved_;
  std::map<ValueId, std::map<std::string, std::vector<float>>> moments_;  // of parameters, by the moments' names
  std::map<ValueId, float> momenta_, decays_;
  std::vector<std::string> problems_;
  std::set<std::string> said_;
  int stepped_ = 0;
  int inferring_ = 0;  // number of calls with training=False around this one
  int64_t batch_ = 0;
  bool open_batch_ = true;
  int asked_batch_ = 0;  // from --batch or --shape
  int depth_ = 0;
  size_t calls_ = 0;
};

// Most levels of models that are layers of other models.
inline constexpr int kMostNested = 32;
bool is_model(const std::string& class_name, const Json& config);
void add_reads(const Json& json, std::set<Reference>& reads);  // adds the calls that an argument reads tensors of
std::vector<Reference> references(const Json& json);           // all references in the JSON, in order
// is_reference: a tensor of the model as Keras 2 writes it. is_operand: one as Keras 2 or 3 writes it, or an array.
bool is_reference(const Json& json);
bool is_operand(const Json& json);
std::string dims_text(const std::vector<int64_t>& dims);
std::string snake_case(const std::string& class_name);  // the name of a class's group in a file

}  // namespace nacre::tools::keras
