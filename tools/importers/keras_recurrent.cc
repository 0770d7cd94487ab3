// LSTM, GRU, SimpleRNN and what wraps layers: the projection of the input is one dense over all steps, then comes the
// recurrence. SimpleRNN, for which there is no op, is unrolled.
//
//   Keras   kernel [in, gates h], recurrent [h, gates h], bias [gates h]; of a GRU with reset_after [2, 3 h]
//   gates   LSTM i, f, c, o; GRU z, r, h: as in the graph
//
// go_backwards reads time from its end, and gives the steps out in that order.
#include <algorithm>

#include "tools/importers/keras.h"

namespace nacre::tools::keras {
namespace {

constexpr int64_t kMostUnrolled = 1024;

// The steps [batch, time, h], the last of them and of the cells [batch, h]; cell: kNone but of an LSTM.
struct Sequence {
  ValueId steps = kNone, last = kNone, cell = kNone;
};

struct Recurrence {
  int64_t time = 0, in = 0, width = 0;
  bool want_cell = false;
};

ValueId reversed(const Call& call, ValueId x) {
  const int64_t time = call.dims(x)[1];
  return time == 1 ? x : call.slice(x, 1, time - 1, time, -1);
}

ValueId last_step(const Call& call, ValueId x) {
  const std::vector<int64_t> dims = call.dims(x);
  return call.reshape(call.slice(x, 1, dims[1] - 1, 1), {dims[0], dims[2]});
}

Recurrence read(const Call& call, ValueId x, int64_t gates) {
  if (call.rank(x) != 3) call.bad("an input of shape " + dims_text(call.dims(x)));
  Recurrence r = {call.dims(x)[1], call.dims(x)[2], call.integer("units", 0), false};
  call.need_dims(0, {r.in, gates * r.width});
  call.need_dims(1, {r.width, gates * r.width});
  if (call.flag("time_major", false)) call.unsupported("time_major: time before the batch");
  if (call.flag("stateful", false)) call.unsupported("stateful: its state outlives a run");
  if (call.importer->masked().contains(x) || call.called_with("mask")) call.unsupported("a masked sequence");
  return r;
}

void need_activations(const Call& call) {
  if (activation_name(call, "activation", "tanh") != "tanh" ||
      activation_name(call, "recurrent_activation", "sigmoid") != "sigmoid")
    call.unsupported("other activations than tanh and sigmoid");
}

ValueId recurrent_kernel(const Call& call, int64_t width, int64_t rows) {
  return call.variable(1, "recurrent_kernel", "recurrent", {rows, width},
                       [&](const auto& numbers) { return transposed(numbers, width, rows); });
}

Sequence lstm(const Call& call, ValueId x, std::vector<ValueId> state, bool want_cell) {
  const Recurrence r = read(call, x, 4);
  need_activations(call);
  const int64_t rows = 4 * r.width;
  const ValueId bias = call.flag("use_bias", true) ? call.variable(2, "bias", "", {rows}) : kNone;
  x = dense(call, x, 0, r.in, rows, bias);
  state.resize(2, kNone);
  Node node = call.step(Op::kLstm, {x, recurrent_kernel(call, r.width, rows), kNone, state[0], state[1]});
  Sequence made;
  if (!want_cell) {
    made.steps = call.emit(std::move(node));
  } else {  // the form that keeps all cells
    for (const char* name : {"/steps", "/kept_gates", "/cells"}) {
      Value v;
      v.name = call.path + name;
      node.outputs.push_back(call.importer->graph().add(std::move(v)));
    }
    infer_shapes(call.importer->graph(), node);
    made.steps = node.outputs[0];
    const ValueId cells = node.outputs[2];
    call.importer->graph().nodes.push_back(std::move(node));
    made.cell = last_step(call, cells);
  }
  made.last = last_step(call, made.steps);
  return made;
}

Sequence gru(const Call& call, ValueId x, std::vector<ValueId> state, bool) {
  const Recurrence r = read(call, x, 3);
  need_activations(call);
  const int64_t rows = 3 * r.width;
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
  x = dense(call, x, 0, r.in, rows, bias);
  state.resize(1, kNone);
  Node node = call.step(Op::kGru, {x, recurrent_kernel(call, r.width, rows), inside, state[0]});
  set_integer(node, "reset_after", reset_after ? 1 : 0);
  Sequence made;
  made.steps = call.emit(std::move(node));
  made.last = last_step(call, made.steps);
  return made;
}

// y_t = f(x_t + y_{t-1} R)
Sequence simple_rnn(const Call& call, ValueId x, std::vector<ValueId> state, bool) {
  const Recurrence r = read(call, x, 1);
  if (r.time > kMostUnrolled) call.unsupported("more than 1024 steps, which are unrolled");
  const ValueId bias = call.flag("use_bias", true) ? call.variable(2, "bias") : kNone;
  x = dense(call, x, 0, r.in, r.width, bias);
  const ValueId w = recurrent_kernel(call, r.width, r.width);
  const int64_t batch = call.dims(x)[0];
  std::vector<ValueId> steps;
  ValueId y = state.empty() ? kNone : state[0];
  for (int64_t t = 0; t < r.time; ++t) {
    ValueId sum = call.reshape(call.slice(x, 1, t, 1), {batch, r.width});
    if (y != kNone) sum = call.emit(Op::kAdd, {sum, call.emit(Op::kDense, {y, w})});
    y = activated(call, sum);
    steps.push_back(call.reshape(y, {batch, 1, r.width}));
  }
  return {call.concat(steps, 1), y, kNone};
}

using Run = Sequence (*)(const Call& call, ValueId x, std::vector<ValueId> state, bool want_cell);

Run find_run(const std::string& class_name) {
  if (class_name == "LSTM") return &lstm;
  if (class_name == "GRU") return &gru;
  return class_name == "SimpleRNN" ? &simple_rnn : nullptr;
}

// In a .keras file the variables are those of the layer's cell.
Weights of_cell(const Weights& weights) { return weights.count() > 0 ? weights : weights.part({"cell"}, 0, 8); }

// Further tensors of a call are the initial state.
std::vector<ValueId> state_of(const Call& call) {
  std::vector<ValueId> state(call.inputs.begin() + 1, call.inputs.end());
  const auto given = call.keyword.find("initial_state");
  if (given != call.keyword.end()) state = given->second;
  return state;
}

template <Run kRun>
void convert_rnn(Call& call) {
  call.weights = of_cell(call.weights);
  ValueId x = call.input();
  if (call.flag("go_backwards", false)) x = reversed(call, x);
  const bool states = call.flag("return_state", false);
  const Sequence made = kRun(call, x, state_of(call), states);
  call.outputs = {call.flag("return_sequences", false) ? made.steps : made.last};
  if (!states) return;
  call.outputs.push_back(made.last);
  if (made.cell != kNone) call.outputs.push_back(made.cell);
}

ValueId merged(const Call& call, ValueId a, ValueId b, const std::string& mode) {
  if (mode == "concat") return call.concat({a, b}, call.rank(a) - 1);
  if (mode == "mul") return call.emit(Op::kMul, {a, b});
  const ValueId sum = call.emit(Op::kAdd, {a, b});
  if (mode != "sum" && mode != "ave") call.bad("merge_mode " + mode + " is none");
  return mode == "ave" ? call.scaled(sum, 0.5f) : sum;
}

// The backward layer's configuration is the forward one's where Keras 2 does not say it.
void convert_bidirectional(Call& call) {
  const ValueId x = call.input();
  const Json& forward = call.config.at("layer");
  const Json& backward = call.given("backward_layer") ? *call.find("backward_layer") : forward;
  const size_t each = call.weights.count() / 2;
  Sequence made[2];
  bool sequences = false, states = false;
  for (size_t d = 0; d < 2; ++d) {
    const Json& entry = d == 0 ? forward : backward;
    const std::string class_name = entry.at("class_name").text();
    const Run run = find_run(class_name);
    if (run == nullptr) call.unsupported("a layer " + class_name + " in it");
    const Weights weights = call.weights.part(
        d == 0 ? std::vector<std::string>{"forward_layer", "layer"} : std::vector<std::string>{"backward_layer"},
        d * each, each);
    const Call side = call.part(class_name, d == 0 ? "forward" : "backward", entry.at("config"), of_cell(weights));
    sequences = side.flag("return_sequences", false);
    states = side.flag("return_state", false);
    if (call.inputs.size() > 1 || call.keyword.contains("initial_state")) call.unsupported("an initial state");
    if (call.importer->masked().contains(x)) call.unsupported("a masked sequence");
    made[d] = run(side, d == 0 ? x : reversed(side, x), {}, states);
  }
  const ValueId a = sequences ? made[0].steps : made[0].last;
  const ValueId b = sequences ? reversed(call, made[1].steps) : made[1].last;
  const Json* mode = call.find("merge_mode");
  if (mode == nullptr && call.config.contains("merge_mode")) call.outputs = {a, b};
  else call.outputs = {merged(call, a, b, mode == nullptr ? "concat" : mode->text())};
  if (!states) return;
  for (const Sequence& side : made) {
    call.outputs.push_back(side.last);
    if (side.cell != kNone) call.outputs.push_back(side.cell);
  }
}

// The layer on every step: [batch, time, ..] as [batch time, ..].
void convert_time_distributed(Call& call) {
  const ValueId x = call.raw_input();
  const std::vector<int64_t> dims = call.dims(x);
  const Json& entry = call.config.at("layer");
  const std::string class_name = entry.at("class_name").text();
  if (dims.size() < 3) call.bad("an input of shape " + dims_text(dims));
  Call inner = call;
  inner.class_name = class_name;
  inner.config = entry.at("config");
  inner.weights = call.weights.part({"layer"}, 0, call.weights.count());
  std::vector<int64_t> flat(dims.begin() + 1, dims.end());
  flat[0] *= dims[0];
  inner.inputs = {call.reshape(x, flat)};
  const Converter* converter = find_converter(class_name);
  if (converter == nullptr) call.unsupported("a layer " + class_name + " in it");
  converter->convert(inner);
  std::vector<int64_t> apart = call.dims(inner.outputs.at(0));
  apart[0] = dims[1];
  apart.insert(apart.begin(), dims[0]);
  call.outputs = {call.reshape(inner.outputs[0], apart)};
}

constexpr Converter kRecurrentRows[] = {
    {"LSTM", &convert_rnn<&lstm>},
    {"GRU", &convert_rnn<&gru>},
    {"SimpleRNN", &convert_rnn<&simple_rnn>},
    {"Bidirectional", &convert_bidirectional},
    {"TimeDistributed", &convert_time_distributed},
};

}  // namespace

std::span<const Converter> recurrent_converters() { return kRecurrentRows; }

}  // namespace nacre::tools::keras
