// Declarations that the parts of the Keras importer share. Private to tools/importers/keras.
//
//   file.cc                 the file: its form, the model in it, inputs and outputs, what is not supported
//   archive.cc              the members of a .keras archive;  hdf5*.cc: HDF5, in a process of its own
//   stored.cc               where a file stores its numbers;  weights.cc: which variables are whose, in both forms
//   settings.cc             which settings are used, and which are refused;  setting_rows.cc: its tables
//   training.cc             loss, optimizer and its state;  trainable.cc: the order of what trains
//   order.cc                numbers of the calls of a model, and the order in which Keras runs them
//   network.cc              Functional, Sequential and nested models: which layer is called with what
//   call.cc                 one call of a layer: its configuration, its operands, its nodes
//   dense.cc                Dense, EinsumDense, Embedding
//   window.cc               convolutions;  transpose.cc: transposed ones;  pool.cc: pools
//   volume.cc               both over volumes;  image.cc: what resizes images;  contrast.cc: their contrast
//   activation.cc           activations, as layers and as names;  norm.cc: normalizations
//   move.cc                 Reshape and its kin, padding, cropping;  merge.cc: Add and its kin
//   recurrent.cc            LSTM, GRU, SimpleRNN, RNN, Bidirectional, TimeDistributed
//   cell.cc                 recurrences that are written out step by step;  conv_lstm.cc: those of images
//   mask.cc                 which steps of a sequence count;  encode.cc: categories, bins;  signal.cc: spectra
//   functions/functions.cc  functions of keras.ops;  attention.cc: MultiHeadAttention and its kin
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
inline constexpr int64_t kMostSize = int64_t{1} << 28;  // of an axis: the engine's limit

// At the top of a file: what the optimizer keeps.
inline const std::vector<std::string> kOptimizerGroups = {"optimizer", "optimizer_weights"};

// archive.cc: the members of a .keras file that are read.
struct Archive {
  std::string config, metadata;
  std::vector<uint8_t> weights;
};
Archive read_archive(std::span<const uint8_t> bytes, const std::string& place);
Json parse_config(const std::string& text, const std::string& place);  // bounded in depth

// Contents of a file, in each form that Keras writes.
struct Stored {
  std::string config, version;  // of the model; of Keras, "" where the file does not say
  Hdf5File file;
  uint64_t bytes = 0;  // of the file with the weights
};
Stored stored_archive(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options);
Stored stored_hdf5(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options);
Stored stored_json(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options);

// A kernel that the file has in codes: the numbers that they mean, and of each its code, scale and zero point.
struct CodedKernel {
  Hdf5Dataset numbers;
  std::vector<float> codes, scale, zero;  // zero: may be empty
  Quantization quantization = Quantization::kNone;
  int64_t block = 0;  // rows that share a scale; 0: all
};

// Scales and amax histories that float8 training keeps of a layer's input, kernel and gradient.
struct Float8State {
  struct Of {
    std::vector<float> scale, history;
    float amax() const;  // of which Keras's rule makes the scale; 0: it is none
  };
  Of x, w, y;
};

// The variables of a layer, of a part of it or of a model, in Keras's order.
//
//   by place   <path>/vars/<index>, parts and layers in groups below       .keras, .weights.h5
//   by list    the names in attribute weight_names of the layer's group    .h5
class Weights {
 public:
  Weights() = default;
  Weights(const Hdf5File& file, const std::string& place);  // of the whole model

  size_t count() const { return paths_.size(); }
  const Hdf5Dataset& operator[](size_t i) const;                    // refuses what is not there
  const std::string& path(size_t i) const { return paths_.at(i); }  // unique in the file
  // Variables of a sublayer: by place the first of `names` that is there, by list `size` variables from `first` on.
  Weights part(const std::vector<std::string>& names, size_t first, size_t size) const;
  // These variables with `kernel`, made of variable `at`, as variable 0, and the bias, if any, as variable 1.
  Weights with_kernel(std::shared_ptr<const CodedKernel> kernel, size_t at, std::optional<size_t> bias) const;
  const CodedKernel* coded() const { return kernel_.get(); }  // null: variable 0 is what the file has
  // Variables of each layer of a model; `layers`: {name, class} in order.
  std::vector<Weights> layers(const std::vector<std::pair<std::string, std::string>>& layers) const;

 private:
  Weights at(const std::string& path) const;
  Weights named(const std::string& layer) const;

  const Hdf5File* file_ = nullptr;
  std::string place_, path_;
  bool by_list_ = false, root_ = false;
  std::vector<std::string> paths_;
  std::shared_ptr<const CodedKernel> kernel_;  // stands for variable 0
};

class Importer;

// One call of a layer. A layer that is called several times has the same path and weights in each.
struct Call {
  Importer* importer = nullptr;
  std::string class_name, name, path;  // path: with the names of the models around it
  std::string module;                  // "keras.layers"; "keras.src.ops.numpy" of a function of keras.ops
  Json config, args, kwargs;           // args as the file has them
  Weights weights;
  bool frozen = false;                                  // its variables do not train
  std::vector<ValueId> inputs;                          // the tensors among args, in order
  std::map<std::string, std::vector<ValueId>> keyword;  // and among kwargs
  std::vector<ValueId> outputs;
  mutable std::set<std::string> read;  // keys of the configuration, and keyword arguments, that were asked for

  // Configuration; what is absent or null is `otherwise`.
  const Json* find(const char* key) const;
  int64_t integer(const char* key, int64_t otherwise) const;
  float real(const char* key, float otherwise) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::vector<int64_t> integers(const char* key, size_t count, int64_t otherwise) const;  // one stands for all
  std::vector<int64_t> list(const char* key) const;
  bool given(const char* key) const { return find(key) != nullptr; }
  bool called_with(const char* key) const;  // a keyword argument that is neither null nor false

  Value& value(ValueId id) const;
  const std::vector<int64_t>& dims(ValueId id) const { return value(id).dims; }
  int rank(ValueId id) const { return int(dims(id).size()); }
  ValueId input(size_t i = 0) const;      // real: integers are cast
  ValueId raw_input(size_t i = 0) const;  // as it is
  int axis(int64_t axis, int rank) const;

  // Nodes: the value that they write. The names are of the layer.
  Node step(Op op, std::vector<ValueId> operands) const;
  ValueId emit(Node node, ElementType type = ElementType::kFloat32) const;
  ValueId emit(Op op, std::vector<ValueId> operands) const { return emit(step(op, std::move(operands))); }
  ValueId binary(uint32_t function, ValueId a, ValueId b) const;
  ValueId compare(uint32_t function, ValueId a, ValueId b) const;           // bool
  ValueId select(ValueId condition, ValueId a, ValueId b) const;            // a where it is true, else b
  ValueId cast(ValueId x, ElementType type = ElementType::kFloat32) const;  // x itself where it is of that type
  ValueId unary(uint32_t function, ValueId x, float alpha = 0, float gamma = 0) const;
  ValueId clamp(ValueId x, float low, float high) const;
  ValueId reshape(ValueId x, const std::vector<int64_t>& dims) const;
  ValueId transpose(ValueId x, const std::vector<int>& perm) const;  // x itself where nothing moves
  ValueId concat(const std::vector<ValueId>& parts, int axis) const;
  ValueId slice(ValueId x, int axis, int64_t begin, int64_t size, int64_t step = 1) const;
  ValueId mean(ValueId x, const std::vector<int>& axes, bool keep) const;
  ValueId reduce(uint32_t function, ValueId x, const std::vector<int>& axes, bool keep) const;
  ValueId repeat(ValueId x, const std::vector<int64_t>& times) const;  // axes of size 1 that become `times`
  ValueId scaled(ValueId x, float factor) const;
  ValueId shifted(ValueId x, float term) const;
  ValueId number(float value) const;  // [1]
  ValueId softmax(ValueId x, int axis) const;
  ValueId pad(ValueId x, const std::vector<int64_t>& before, const std::vector<int64_t>& after, float value = 0) const;

  ValueId stored(const Json& array) const;  // an array that the configuration holds

  // Constants. Variable i as `make` arranges it, once per `form`.
  using Arrange = std::function<std::vector<float>(const std::vector<float>&)>;
  ValueId variable(size_t i, const std::string& label, const std::string& form = "", std::vector<int64_t> dims = {},
                   const Arrange& make = nullptr) const;
  ValueId constant(const std::string& label, std::vector<int64_t> dims, const std::vector<float>& numbers) const;
  void spend(int64_t elements) const;
  void need_dims(size_t i, const std::vector<int64_t>& dims) const;  // of variable i

  // A sublayer of this one: its nodes have an entry of their own.
  Call part(const std::string& class_name, const std::string& name, const Json& config, Weights weights) const;
  void note(const std::string& what) const;  // for the log

  [[noreturn]] void unsupported(const std::string& reason) const;
  [[noreturn]] void bad(const std::string& fact) const;
  void refuse(const std::string& setting, const std::string& fact) const;  // unless the import goes on without it
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
bool is_function(const std::string& module);                          // of keras.ops
bool is_function(const std::string& class_name, const Json& config);  // in an .h5 file, which does not say the module
const Converter* find_function(const std::string& class_name);

// activation.cc: what `key` of the configuration names, a function or a layer.
ValueId activated(const Call& call, ValueId x, const char* key = "activation");
std::string activation_name(const Call& call, const char* key, const std::string& otherwise);

// mask.cc. A mask is a bool per step of a sequence, [batch, time], which Keras carries beside its values.
ValueId as_condition(const Call& call, ValueId x);                      // bool, of numbers whether they are not 0
ValueId mask_of(const Call& call, size_t input, const char* argument);  // given, or mask_left of an input; or kNone
ValueId mask_left(const Call& call, ValueId x);          // that x carries, unless heads took it; or kNone
ValueId either(const Call& call, ValueId a, ValueId b);  // of two masks
std::vector<ValueId> masks_behind(const Call& call);     // of the outputs, with kNone
void name_masks(Call& call);                             // that it has by their places
void give_masks(const Call& call);                       // to a nested model's inputs
void take_masks(const Call& call);                       // as MultiHeadAttention does
float hidden_score(const Call& call);  // what Keras has in place of masked scores: it depends on the layer's type

// cell.cc: the steps [batch, time, h], the last of them, and the states behind it, which begin with the output.
struct Sequence {
  ValueId steps = kNone, last = kNone;
  std::vector<ValueId> states = {};
};
struct Recurrence {
  std::vector<ValueId> states = {};  // that it begins with; none: zeros
  ValueId mask = kNone;
  bool zero_masked = false;                 // masked steps give 0, else what the step before gave, at first 0
  bool want_states = false, begun = false;  // begun: with given states, and no output before the first step that counts
};
ValueId reversed(const Call& call, ValueId x);  // in time
ValueId last_step(const Call& call, ValueId x);
Sequence unrolled_cell(const Call& call, ValueId x, const Recurrence& r);
// Written out: `step` has the states at a step become the next ones.
using Step = std::function<std::vector<ValueId>(int64_t time, const std::vector<ValueId>& states)>;
Sequence unrolled(const Call& call, int64_t time, const Recurrence& r, const Step& step);
Sequence conv_lstm(const Call& call, ValueId x, const Recurrence& r);  // conv_lstm.cc
// recurrent.cc: one, of a layer LSTM, GRU, SimpleRNN or RNN or of a cell of such a name, forward in time.
Sequence recurrence(const Call& call, ValueId x, const Recurrence& r);

// dense.cc: x [.., in] by variable `kernel` of shape `dims`, as a matrix [in, out], and a bias or kNone.
ValueId dense(const Call& call, ValueId x, size_t kernel, int64_t in, int64_t out, ValueId bias);
void convert_einsum_dense(Call& call);

// policy.cc: a layer's dtype as Keras writes it, "" where it says nothing but float32; "int8", "int4/128", ..
std::string source_policy(const Json& config);
std::string quantization_mode(const Json& config);
Json quantized(const std::string& mode);       // the dtype of a layer of that mode, over float32
std::string compute_type(const Json& config);  // "float32", "float16", ..: what Keras casts a layer's inputs to
std::string source_name(const Json& config);   // of the policy that was quantized: "float32", "mixed_bfloat16", ..
// How a quantized layer codes the rows of its input, none where it does not.
//
//   q = round(x high / (max |x| + epsilon)) within low .. high
struct RowCodes {
  float low = -127, high = 127, epsilon = 1e-7f;
  bool operator==(const RowCodes&) const = default;
};
std::optional<RowCodes> row_codes(const Call& call);
// codes.cc: what the variables of a product say of its mode, "" that it has none.
std::string stored_mode(const Weights& weights);
// The variables of a quantized layer become kernel and bias.
void decode_kernel(Call& call, const std::string& mode);
// x as a product of the layer reads it: what its rows' codes mean, where that is no part of the layer's policy.
ValueId coded_rows(const Call& call, ValueId x);
void attach_codes(const Call& call, ValueId weights, const CodedKernel& kernel, const Call::Arrange& make);

// matrix [rows, columns] -> [columns, rows]
std::vector<float> transposed(const std::vector<float>& matrix, int64_t rows, int64_t columns);

// A tensor of the model: output `tensor` of call `node` of a layer.
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

  // training.cc: before run(), what the file says of its training; and the moments of a variable that became a
  // parameter, arranged as it is.
  void resume(SavedTraining saved);
  void keep_moments(ValueId parameter, const std::string& variable, const std::vector<int64_t>& dims,
                    const Call::Arrange& make);

  // training.cc: how fast a running mean or variance follows, and what a penalty adds to a gradient.
  void keep_momentum(ValueId statistic, float momentum) { momenta_[statistic] = momentum; }
  void keep_decay(ValueId parameter, float decay) { decays_[parameter] += decay; }

  // Amax that made the scale of a float8 layer's kernel or input (0: not known), and the state that training keeps.
  void keep_float8(const Call& call, float kernel_amax, Float8State state);
  float kernel_amax(const std::string& variable) const;
  float input_amax(const Call& call) const;

  // trainable.cc: whether variables of the layer of this configuration stay as they are; `inherited`: of what is
  // around it. And the arrangement of a variable that became a constant.
  bool is_frozen(const Json& config, bool inherited, const std::string& path);
  void keep_form(const std::string& variable, int64_t stored_elements, ValueId made);

  // network.cc: converts a model, called on `inputs`. `path` ends with '/' if the model is a layer of another model.
  std::vector<ValueId> model(const Json& entry, const Weights& weights, std::vector<ValueId> inputs,
                             const std::string& path);
  // A layer: its converter, or the problem.
  void convert(Call& call);
  void convert_inner(Call& call);  // a layer or model of a wrapper, whose problems it has

  Graph& graph() { return graph_; }
  const ImportOptions& options() const { return options_; }
  // Whether layers work as in training: not in a graph that infers, nor in what Keras 2 calls with training=False.
  bool trains() const { return options_.train && inferring_ == 0; }
  const std::string& name() const { return name_; }
  int layer_of(const Call& call);
  bool keras2() const { return version_.starts_with("2.") || version_.starts_with("1."); }
  std::map<std::string, ValueId>& variables() { return variables_; }
  std::map<ValueId, ValueId>& masks() { return masks_; }  // of values that carry one
  std::set<ValueId>& taken() { return taken_; }           // values that carry theirs no longer where Keras runs them
  std::set<ValueId>& nested() { return nested_; }         // values that nested models gave: their masks are of the run
  int& stepped() { return stepped_; }                     // layers around the present one that run it once per step

 private:
  struct Entry {  // a layer of a model
    std::string class_name, name, module;
    Json config;
    std::vector<Json> nodes;
    int64_t first = 0;  // the number of its first call: of a model 1 where Keras counts that of its making
    Weights weights;
    uint64_t bytes = 0;  // that a copy of the configuration takes, about
  };
  struct Scope {                                      // a model's tensors
    std::map<Reference, std::vector<ValueId>> known;  // by call; tensor is 0
    std::string path;
  };

  struct Waiting {  // a call, and how much of what it reads is not made yet
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
  void require_patterns() const;  // of layers that are to be unfrozen
  void require_frozen() const;    // that there are such
  std::map<std::string, std::vector<float>> float8_state() const;
  void judge_masks();
  void finish_training(const Json& model);
  void problem(const std::string& text);

  std::string name_;
  const ImportOptions& options_;
  Graph graph_;
  std::string version_;
  std::map<std::string, int> layers_;         // by path
  std::map<std::string, ValueId> variables_;  // by path in the file and form
  std::map<ValueId, ValueId> masks_;
  std::set<ValueId> taken_, nested_;
  std::map<std::string, std::pair<int64_t, std::vector<ValueId>>> forms_;  // by path in the file, and its elements
  std::set<std::string> unfrozen_;                                         // patterns that named a frozen layer
  bool all_frozen_ = false, model_frozen_ = false;  // the whole file; the model whose layers are read
  std::map<std::string, float> kernel_amaxes_;      // by variable
  std::map<std::string, Float8State> float8_;       // by layer
  std::unique_ptr<SavedTraining> saved_;
  std::map<ValueId, std::map<std::string, std::vector<float>>> moments_;  // of parameters, by their names
  std::map<ValueId, float> momenta_, decays_;
  std::vector<std::string> problems_;
  std::set<std::string> said_;
  int stepped_ = 0;
  int inferring_ = 0;  // calls with training=False around the present one
  int64_t batch_ = 0;
  bool open_batch_ = true;
  int asked_batch_ = 0;  // by --batch or --shape
  int depth_ = 0;
  size_t calls_ = 0;
};

// A model, which may be a layer of another.
inline constexpr int kMostNested = 32;
bool is_model(const std::string& class_name, const Json& config);
void add_reads(const Json& json, std::set<Reference>& reads);  // the calls that an argument reads tensors of
std::vector<Reference> references(const Json& json);           // of input_layers and output_layers
// Arguments of calls: a tensor of the model as Keras 2 writes it; one as either does, or an array in the configuration.
bool is_reference(const Json& json);
bool is_operand(const Json& json);
std::string dims_text(const std::vector<int64_t>& dims);
std::string snake_case(const std::string& class_name);  // as Keras names groups

}  // namespace nacre::tools::keras
