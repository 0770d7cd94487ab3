// Converts LSTM, GRU, SimpleRNN, RNN, ConvLSTM, Bidirectional and TimeDistributed. The projection of the input is one
// dense node over all steps. Then comes the recurrence, as one node or written out step by step (cell.cc).
//
//   Keras   kernel [in, gates h], recurrent [h, gates h], bias [gates h], or [2, 3 h] in a GRU with reset_after
//   gates   LSTM i, f, c, o; GRU z, r, h: as in the graph
//
// A layer with go_backwards reads time from its end, and gives the steps out in that order. A stateful layer keeps its
// state for the next run in values of the stream region (memory that lives between runs), which are zeros at first.
#include <algorithm>

#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

void check_cell(const Call& call, ValueId x, int64_t gates) {
  if (call.rank(x) != 3) call.bad("an input of shape " + dims_text(call.dims(x)));
  const int64_t width = call.integer("units", 0);
  call.need_dims(0, {call.dims(x)[2], gates * width});
  call.need_dims(1, {width, gates * width});
}

bool has_usual_activations(const Call& call) {
  return activation_name(call, "activation", "tanh") == "tanh" &&
         activation_name(call, "recurrent_activation", "sigmoid") == "sigmoid";
}

ValueId recurrent_kernel(const Call& call, int64_t width, int64_t rows) {
  return call.variable(1, "recurrent_kernel", "recurrent", {rows, width},
                       [&](const auto& numbers) { return transposed(numbers, width, rows); });
}

Sequence lstm(const Call& call, ValueId x, const Recurrence& r) {
  const int64_t width = call.integer("units", 0), rows = 4 * width;
  const ValueId bias = call.flag("use_bias", true) ? call.variable(2, "bias", "", {rows}) : kNone;
  x = dense(call, x, 0, call.dims(x)[2], rows, bias);
  std::vector<ValueId> state = r.states;
  state.resize(2, kNone);
  Node node = call.step(Op::kLstm, {x, recurrent_kernel(call, width, rows), kNone, state[0], state[1]});
  Sequence made;
  if (!r.want_states) {
    made.steps = call.emit(std::move(node));
    made.last = last_step(call, made.steps);
    made.states = {made.last};
    return made;
  }
  for (const char* name : {"/steps", "/kept_gates", "/cells"}) {  // the op that keeps the cells of all steps
    Value v;
    v.name = call.path + name;
    node.outputs.push_back(call.importer->graph().add(std::move(v)));
  }
  infer_shapes(call.importer->graph(), node);
  made.steps = node.outputs[0];
  const ValueId cells = node.outputs[2];
  call.importer->graph().nodes.push_back(std::move(node));
  made.last = last_step(call, made.steps);
  made.states = {made.last, last_step(call, cells)};
  return made;
}

Sequence gru(const Call& call, ValueId x, const Recurrence& r) {
  const int64_t width = call.integer("units", 0), rows = 3 * width;
  const bool reset_after = call.flag("reset_after", !call.importer->keras2()), biased = call.flag("use_bias", true);
  const bool two = biased && reset_after;
  const auto half = [&](size_t first) {
    return [rows, first](const std::vector<float>& b) {
      return std::vector<float>(b.begin() + std::ptrdiff_t(first), b.begin() + std::ptrdiff_t(first) + rows);
    };
  };
  ValueId bias = kNone, inside = kNone;
  if (two) {
    call.need_dims(2, {2, rows});
    bias = call.variable(2, "bias", "input", {rows}, half(0));
    inside = call.variable(2, "recurrent_bias", "recurrent", {rows}, half(size_t(rows)));
  } else if (biased) {
    bias = call.variable(2, "bias", "", {rows});
  }
  x = dense(call, x, 0, call.dims(x)[2], rows, bias);
  const ValueId state = r.states.empty() ? kNone : r.states[0];
  Node node = call.step(Op::kGru, {x, recurrent_kernel(call, width, rows), inside, state});
  set_integer(node, "reset_after", reset_after ? 1 : 0);
  Sequence made;
  made.steps = call.emit(std::move(node));
  made.last = last_step(call, made.steps);
  made.states = {made.last};
  return made;
}

// Returns whether the layer is a recurrence of this kind, or a cell of one.
bool is_of(const Call& call, const char* kind) {
  return call.class_name == kind || call.class_name == std::string(kind) + "Cell";
}

// Returns the variables of a layer, which a .keras file stores with the layer's cell.
Weights of_cell(const Weights& weights) { return weights.count() > 0 ? weights : weights.part({"cell"}, 0, SIZE_MAX); }

// Returns cells that run one after the other over all steps. A list has their variables in this order.
std::vector<Call> stacked(const Call& call) {
  std::vector<Call> cells;
  std::map<std::string, int> taken;
  size_t first = 0;
  for (const Json& entry : call.config.at("cells")) {
    const std::string class_name = entry.at("class_name").text(), group = snake_case(class_name);
    const int k = taken[group]++;
    const std::string place = "cells/" + group + (k == 0 ? "" : "_" + std::to_string(k));
    Call cell = call.part(class_name, "cell_" + std::to_string(cells.size()), entry.at("config"), {});
    const size_t size = cell.flag("use_bias", true) ? 3 : 2;
    cell.weights = call.weights.part({place}, first, size);
    first += size;
    cells.push_back(std::move(cell));
  }
  if (cells.empty()) call.bad("has no cell");
  return cells;
}

// Returns the cells of a layer, in order, with their configurations.
std::vector<Call> cells_of(const Call& call) {
  if (call.class_name != "RNN") {
    Call own = call;
    own.weights = of_cell(call.weights);
    return {own};
  }
  const Json& entry = call.config.at("cell");
  Call cell = call;
  cell.class_name = entry.at("class_name").text();
  cell.config = entry.at("config");
  cell.weights = call.weights.part({"cell"}, 0, SIZE_MAX);
  cell.frozen = call.importer->is_frozen(cell.config, call.frozen, call.path);
  if (cell.class_name == "StackedRNNCells") return stacked(cell);
  return {cell};
}

size_t states_of(const Call& cell) { return is_of(cell, "LSTM") ? 2 : 1; }

// Checks the number of the initial states, and that each is [batch, units].
void check_states(const Call& cell, const std::vector<ValueId>& states, int64_t batch) {
  if (!states.empty() && states.size() != states_of(cell))
    cell.bad("begins with " + std::to_string(states.size()) + " states, it has " + std::to_string(states_of(cell)));
  const std::vector<int64_t> needed = {batch, cell.integer("units", 0)};
  for (const ValueId state : states)
    if (cell.dims(state) != needed)
      cell.bad("a state of shape " + dims_text(cell.dims(state)) + ", " + dims_text(needed) + " is needed");
}

Sequence run_cell(const Call& cell, ValueId x, const Recurrence& r) {
  const bool is_lstm = is_of(cell, "LSTM"), is_gru = is_of(cell, "GRU");
  if (!is_lstm && !is_gru && !is_of(cell, "SimpleRNN")) cell.unsupported("a cell " + cell.class_name);
  check_cell(cell, x, is_lstm ? 4 : is_gru ? 3 : 1);
  check_states(cell, r.states, cell.dims(x)[0]);
  const bool fits = r.mask == kNone && has_usual_activations(cell);
  if (is_lstm && fits) return lstm(cell, x, r);
  return is_gru && fits ? gru(cell, x, r) : unrolled_cell(cell, x, r);
}

}  // namespace

Sequence recurrence(const Call& call, ValueId x, const Recurrence& r) {
  if (call.class_name.starts_with("ConvLSTM")) return conv_lstm(call, x, r);
  Sequence made;
  std::vector<ValueId> states;
  size_t next = 0;
  made.steps = x;
  for (const Call& cell : cells_of(call)) {
    Recurrence of = r;
    if (!r.states.empty()) {
      const size_t count = states_of(cell);
      if (next + count > r.states.size()) call.bad("too few states to begin with");
      of.states.assign(r.states.begin() + std::ptrdiff_t(next), r.states.begin() + std::ptrdiff_t(next + count));
      next += count;
    }
    made = run_cell(cell, made.steps, of);
    states.insert(states.end(), made.states.begin(), made.states.end());
  }
  if (next < r.states.size()) call.bad("too many states to begin with");
  made.states = std::move(states);
  return made;
}

namespace {

// Returns the initial states: the argument initial_state, or the call's tensors after the first.
std::vector<ValueId> state_of(const Call& call) {
  std::vector<ValueId> state(call.inputs.begin() + 1, call.inputs.end());
  const auto given = call.keyword.find("initial_state");
  if (given != call.keyword.end()) state = given->second;
  return state;
}

// Returns the mask of a recurrence: a given one, or that which x carries. Keras 3 ignores the latter if the call has an
// initial state.
ValueId mask_to_run(const Call& call, const std::vector<ValueId>& initial) {
  const bool alone = initial.empty() || call.importer->keras2();
  return alone || call.keyword.contains("mask") ? mask_of(call, 0, "mask") : kNone;
}

// Returns values [batch, h] that keep the states between runs.
std::vector<ValueId> kept_states(const Call& call) {
  if (call.importer->options().train) call.unsupported("stateful: its state would outlive a step of training");
  if (call.class_name.starts_with("ConvLSTM")) call.unsupported("stateful");
  std::vector<ValueId> kept;
  for (const Call& cell : cells_of(call))
    for (size_t i = 0; i < states_of(cell); ++i) {
      Value v;
      v.name = call.path + "/state_" + std::to_string(kept.size());
      v.dims = {call.importer->graph().batch, cell.integer("units", 0)};
      v.region = Region::kStream;
      kept.push_back(call.importer->graph().add(std::move(v)));
    }
  return kept;
}

// Runs a layer over x in the given order. A stateful layer continues where the run before ended.
Sequence run_layer(const Call& call, ValueId x, Recurrence r) {
  if (call.flag("time_major", false)) call.unsupported("time_major: time before the batch");
  const bool stateful = call.flag("stateful", false) && r.states.empty();
  std::vector<ValueId> kept;
  r.begun = stateful || !r.states.empty();
  if (stateful) {
    kept = kept_states(call);
    for (const ValueId s : kept) r.states.push_back(call.emit(Op::kCopy, {s}));
    r.want_states = true;
  }
  if (r.mask != kNone &&
      (call.rank(r.mask) != 2 || call.dims(r.mask)[0] != call.dims(x)[0] || call.dims(r.mask)[1] != call.dims(x)[1]))
    call.bad("a mask of shape " + dims_text(call.dims(r.mask)) + " for an input of shape " + dims_text(call.dims(x)));
  Sequence made = recurrence(call, x, r);
  for (size_t i = 0; i < kept.size(); ++i) static_cast<void>(call.emit(Op::kStore, {made.states[i], kept[i]}));
  return made;
}

void convert_rnn(Call& call) {
  ValueId x = call.input();
  const std::vector<ValueId> initial = state_of(call);
  Recurrence r = {initial, mask_to_run(call, initial), call.flag("zero_output_for_mask", false),
                  call.flag("return_state", false)};
  if (call.flag("go_backwards", false)) {
    x = reversed(call, x);
    if (r.mask != kNone) r.mask = reversed(call, r.mask);
  }
  const bool states = r.want_states;
  const Sequence made = run_layer(call, x, std::move(r));
  call.outputs = {call.flag("return_sequences", false) ? made.steps : made.last};
  if (states) call.outputs.insert(call.outputs.end(), made.states.begin(), made.states.end());
}

ValueId merged(const Call& call, ValueId a, ValueId b, const std::string& mode) {
  if (mode == "concat") return call.concat({a, b}, call.rank(a) - 1);
  if (mode == "mul") return call.emit(Op::kMul, {a, b});
  const ValueId sum = call.emit(Op::kAdd, {a, b});
  if (mode != "sum" && mode != "ave") call.bad("merge_mode " + mode + " is none");
  return mode == "ave" ? call.scaled(sum, 0.5f) : sum;
}

// Converts Bidirectional. If Keras 2 gives no configuration of the backward layer, it is the forward one's. With a mask
// and all steps wanted, masked steps give 0.
void convert_bidirectional(Call& call) {
  const ValueId x = call.input();
  const Json& forward = call.config.at("layer");
  const Json& backward = call.given("backward_layer") ? *call.find("backward_layer") : forward;
  const size_t each = call.weights.count() / 2;
  const std::vector<ValueId> initial = state_of(call);
  const auto half = std::ptrdiff_t(initial.size() / 2);
  const ValueId mask = mask_to_run(call, initial);
  Sequence made[2];
  bool sequences = false, states = false;
  for (size_t d = 0; d < 2; ++d) {
    const Json& entry = d == 0 ? forward : backward;
    const std::vector<std::string> names =
        d == 0 ? std::vector<std::string>{"forward_layer", "layer"} : std::vector<std::string>{"backward_layer"};
    const Call side = call.part(entry.at("class_name").text(), d == 0 ? "forward" : "backward", entry.at("config"),
                                call.weights.part(names, d * each, each));
    sequences = side.flag("return_sequences", false);
    states = side.flag("return_state", false);
    Recurrence r = {{}, mask, sequences, states};
    r.states.assign(initial.begin() + (d == 0 ? 0 : half), initial.end() - (d == 0 ? half : 0));
    if (d == 1 && mask != kNone) r.mask = reversed(side, mask);
    made[d] = run_layer(side, d == 0 ? x : reversed(side, x), std::move(r));
  }
  const ValueId a = sequences ? made[0].steps : made[0].last;
  const ValueId b = sequences ? reversed(call, made[1].steps) : made[1].last;
  const Json* mode = call.find("merge_mode");
  if (mode == nullptr && call.config.contains("merge_mode")) call.outputs = {a, b};
  else call.outputs = {merged(call, a, b, mode == nullptr ? "concat" : mode->text())};
  if (!states) return;
  for (const Sequence& side : made) call.outputs.insert(call.outputs.end(), side.states.begin(), side.states.end());
}

// Counts the layers that run their inner layer once per step.
class Stepped {
 public:
  explicit Stepped(Importer& importer) : count_(importer.stepped()) { ++count_; }
  ~Stepped() { --count_; }
  Stepped(const Stepped&) = delete;
  Stepped& operator=(const Stepped&) = delete;

 private:
  int& count_;
};

// Gives an inner model, or an inner layer that reads masks, the mask [batch, time, steps] as [batch time, steps].
void give_mask_of_steps(const Call& call, Call& inner) {
  static const std::set<std::string> kRead = {
      "LSTM",           "GRU",        "SimpleRNN",  "RNN",        "Softmax",
      "Bidirectional",  "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "GlobalAveragePooling1D",
      "TimeDistributed"};
  const ValueId mask = mask_of(call, 0, "mask");
  const bool nested = is_model(inner.class_name, inner.config);
  if (mask == kNone || (!nested && !kRead.contains(inner.class_name))) return;
  std::vector<int64_t> dims = call.dims(mask);
  if (dims.size() < 3 && nested) return;  // a mask of samples, which no inner layer reads
  if (dims.size() < 3) call.unsupported("a mask of shape " + dims_text(dims) + ", which the layer in it reads");
  dims[1] *= dims[0];
  dims.erase(dims.begin());
  const ValueId of_steps = call.reshape(mask, dims);
  if (nested) call.importer->masks()[inner.inputs[0]] = of_steps;
  else inner.keyword["mask"] = {of_steps};
}

// Runs the layer or model on every step: x [batch, time, ..] becomes [batch time, ..].
void convert_time_distributed(Call& call) {
  const ValueId x = call.raw_input();
  const std::vector<int64_t> dims = call.dims(x);
  const Json& entry = call.config.at("layer");
  if (dims.size() < 3) call.bad("an input of shape " + dims_text(dims));
  Call inner = call;
  inner.class_name = entry.at("class_name").text();
  inner.config = entry.at("config");
  inner.weights = call.weights.part({"layer"}, 0, call.weights.count());
  inner.keyword.clear();
  std::vector<int64_t> flat(dims.begin() + 1, dims.end());
  flat[0] *= dims[0];
  inner.inputs = {call.reshape(x, flat)};
  give_mask_of_steps(call, inner);
  const Stepped stepped(*call.importer);
  call.importer->convert_inner(inner);
  if (inner.outputs.empty() || inner.outputs[0] == kNone) return;  // the inner layer's problem is collected already
  std::vector<int64_t> apart = call.dims(inner.outputs[0]);
  apart[0] = dims[1];
  apart.insert(apart.begin(), dims[0]);
  call.outputs = {call.reshape(inner.outputs[0], apart)};
}

constexpr Converter kRecurrentRows[] = {
    {"LSTM", &convert_rnn},
    {"GRU", &convert_rnn},
    {"SimpleRNN", &convert_rnn},
    {"RNN", &convert_rnn},
    {"ConvLSTM1D", &convert_rnn},
    {"ConvLSTM2D", &convert_rnn},
    {"ConvLSTM3D", &convert_rnn},
    {"Bidirectional", &convert_bidirectional},
    {"TimeDistributed", &convert_time_distributed},
};

}  // namespace

std::span<const Converter> recurrent_converters() { return kRecurrentRows; }

}  // namespace nacre::tools::keras
