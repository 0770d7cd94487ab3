// Imports LSTM and GRU. Each direction is a projection of the input, which is one dense over all time steps, and a
// recurrence, the op lstm or gru. The batch moves to axis 0.
//
//   ONNX                        x [time, batch, in], y [time, directions, batch, h]; with layout = 1 batch first
//   the graph                   x [batch, time, in], y [batch, time, h] per direction
//   gates                       LSTM i, o, f, c -> i, f, c, o; GRU z, r, h unchanged
//   B = {W bias, R bias}        their sum goes into the projection; with linear_before_reset the R bias of a GRU goes
//                               into the recurrence instead
//
// A direction `reverse` is the recurrence between two slices that reverse the axis of time.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

struct Cell {
  Op op;
  int gates;
  std::array<int, 4> order;              // index in the file of each of the graph's gates
  std::vector<std::string> activations;  // the supported activations of one direction
  int bias, lengths, h0;                 // indices of inputs; c0 follows h0
};
const Cell kLstmCell = {Op::kLstm, 4, {0, 2, 3, 1}, {"Sigmoid", "Tanh", "Tanh"}, 3, 4, 5};
const Cell kGruCell = {Op::kGru, 3, {0, 1, 2, 0}, {"Sigmoid", "Tanh"}, 3, 4, 5};

struct Slot {
  enum { kX = 0, kW = 1, kR = 2, kC0 = 6, kPeepholes = 7 };
};

bool all_equal(const Value& value, float number) {
  const std::vector<float> numbers = reals(value);
  return std::all_of(numbers.begin(), numbers.end(), [&](float v) { return v == number; });
}

class Recurrent {
 public:
  Recurrent(Import& import, const Source& source, const Cell& cell) : import_(import), source_(source), cell_(cell) {}

  void run() {
    read();
    std::vector<ValueId> ys, hs, cs;
    for (int d = 0; d < directions_; ++d) {
      const Direction made = direction(d, reverse_ || d == 1);
      ys.push_back(made.y);
      hs.push_back(made.h);
      cs.push_back(made.c);
    }
    give(0, ys, time_);
    give(1, hs, 1);
    if (cell_.op == Op::kLstm) give(2, cs, 1);
  }

 private:
  struct Direction {
    ValueId y, h, c;  // y [batch, time, h]; last y and last cell [batch, 1, h]; kNone if not wanted
  };

  void read() {
    const OperandPtr& x = source_.operand(Slot::kX);
    need_float32(source_, *x);
    const std::string direction = source_.text("direction", "forward");
    reverse_ = direction == "reverse";
    directions_ = direction == "bidirectional" ? 2 : 1;
    if (!reverse_ && directions_ == 1 && direction != "forward")
      source_.malformed("direction " + direction + " is none");
    batch_first_ = source_.integer("layout", 0) != 0;
    const Value &w = weights(Slot::kW), &r = weights(Slot::kR);
    if (x->rank() != 3 || w.dims.size() != 3 || r.dims.size() != 3)
      source_.malformed("its operands do not have three axes");
    batch_ = x->dims[batch_first_ ? 0 : 1];
    time_ = x->dims[batch_first_ ? 1 : 0];
    width_ = r.dims[2];
    const int64_t rows = cell_.gates * width_;
    if (w.dims != std::vector<int64_t>{directions_, rows, x->dims[2]} ||
        r.dims != std::vector<int64_t>{directions_, rows, width_} || source_.integer("hidden_size", width_) != width_)
      source_.malformed("its weights do not fit its input");
    if (source_.given(cell_.bias) && weights(cell_.bias).dims != std::vector<int64_t>{directions_, 2 * rows})
      source_.malformed("its bias does not fit its weights");
    check_states();
    refuse_variants();
  }

  std::vector<int64_t> state_dims() const {
    return batch_first_ ? std::vector<int64_t>{batch_, directions_, width_}
                        : std::vector<int64_t>{directions_, batch_, width_};
  }

  // Checks the shapes of states, lengths and peepholes, even of operands that are not used.
  void check_states() const {
    const bool lstm = cell_.op == Op::kLstm;
    for (const int input : {cell_.h0, lstm ? int(Slot::kC0) : cell_.h0})
      if (source_.given(input) && source_.operand(input)->dims != state_dims())
        source_.malformed("an initial state does not fit its input");
    if (source_.given(cell_.lengths) && source_.operand(cell_.lengths)->dims != std::vector<int64_t>{batch_})
      source_.malformed("its lengths do not fit its batch");
    if (lstm && source_.given(Slot::kPeepholes) &&
        source_.operand(Slot::kPeepholes)->dims != std::vector<int64_t>{directions_, 3 * width_})
      source_.malformed("its peepholes do not fit its weights");
  }

  void refuse_variants() const {
    if (const auto* given = source_.find("activations")) {
      std::vector<std::string> wanted;
      for (int d = 0; d < directions_; ++d)
        wanted.insert(wanted.end(), cell_.activations.begin(), cell_.activations.end());
      if (!std::equal(given->strings().begin(), given->strings().end(), wanted.begin(), wanted.end()))
        source_.refuse("has other activations than Sigmoid and Tanh");
    }
    if (source_.has("clip")) source_.refuse("clips what goes into its activations");
    if (source_.integer("input_forget", 0) != 0) source_.refuse("couples its input and forget gates");
    if (cell_.op == Op::kLstm && source_.given(Slot::kPeepholes) && !all_equal(weights(Slot::kPeepholes), 0))
      source_.refuse("has peepholes");
    if (source_.given(cell_.lengths))
      for (const int64_t length : source_.constant_integers(cell_.lengths, "its sequence lengths"))
        if (length != time_) source_.refuse("has sequences shorter than its input");
  }

  const Value& weights(int input) const {
    const Value& value = source_.constant(input, "its weights");
    if (value.type != ElementType::kFloat32) source_.refuse("weights of another type than float32");
    return value;
  }

  // Returns the rows of direction d of an operand [directions, rows, columns], in the graph's order of gates.
  std::vector<float> rows_of(int input, int d, int64_t columns, int first = 0) const {
    const Value& value = weights(input);
    const std::vector<float> all = reals(value);
    std::vector<float> rows;
    const int64_t block = width_ * columns, start = d * (value.elements() / directions_);
    for (int gate = 0; gate < cell_.gates; ++gate) {
      const auto from = all.begin() + start + (first + cell_.order[size_t(gate)]) * block;
      rows.insert(rows.end(), from, from + block);
    }
    return rows;
  }

  // Adds `numbers`, gates of direction d from operand `input`, to the graph as a parameter. `part` ends its name.
  ValueId stored(int input, int d, const char* part, std::vector<int64_t> dims, const std::vector<float>& numbers) {
    const bool reset_after = source_.integer("linear_before_reset", 0) != 0;
    const std::string how = fmt::format("{} gates, direction {}, reset after {}{}", cell_.gates, d, reset_after, part);
    return import_.parameters().parameter(
        source_.operand(input), {Move::other(how)},
        make_constant(named(input, d) + part, ElementType::kFloat32, std::move(dims), numbers));
  }

  std::string named(int input, int d) const {
    return source_.operand(input)->name + (directions_ == 1 ? "" : d == 0 ? "/forward" : "/reverse");
  }

  // Returns x as [batch, time, in]. If a transpose made x [time, batch, in], returns the transpose's input.
  ValueId batch_first() {
    const OperandPtr& x = source_.operand(Slot::kX);
    const ValueId plain = import_.plain(x);
    if (batch_first_) return plain;
    for (const Node& node : import_.graph().nodes)
      if (node.outputs[0] == plain && node.op == Op::kTranspose && get_integer(node, "perm", 0) == 1 &&
          get_integer(node, "perm", 1) == 0)
        return node.inputs[0];
    return import_.transposed(plain, {1, 0, 2}, x->name + "/batch_first");
  }

  ValueId turned(ValueId x, const std::string& name) {
    const std::vector<int64_t> dims = import_.value(x).dims;
    Node node = import_.step(Op::kSlice);
    for (int axis = 0; axis < 3; ++axis) {
      set_integer(node, "begin", axis == 1 ? int(dims[1]) - 1 : 0, axis);
      set_integer(node, "size", int(dims[size_t(axis)]), axis);
      set_integer(node, "step", axis == 1 ? -1 : 1, axis);
    }
    node.inputs = {x};
    return import_.append(std::move(node), name);
  }

  ValueId step_of(ValueId y, int64_t t, const std::string& name) {
    if (import_.value(y).dims[1] == 1) return y;
    Node node = import_.step(Op::kSlice);
    const std::vector<int64_t> dims = import_.value(y).dims;
    for (int axis = 0; axis < 3; ++axis) {
      set_integer(node, "begin", axis == 1 ? int(t) : 0, axis);
      set_integer(node, "size", axis == 1 ? 1 : int(dims[size_t(axis)]), axis);
      set_integer(node, "step", 1, axis);
    }
    node.inputs = {y};
    return import_.append(std::move(node), name);
  }

  bool is_constant(int input) const {
    const OperandPtr& x = source_.operand(input);
    return x->constant && !import_.parameters().is_variable(x);
  }

  bool is_zero(int input) const {
    return !source_.given(input) || (is_constant(input) && all_equal(*source_.operand(input)->constant, 0));
  }

  // Returns the initial state of direction d, [batch, h], from [directions, batch, h] or with layout = 1 from [batch,
  // directions, h]. Returns kNone if all initial states are zero. An LSTM has both states or none, so an omitted state
  // beside a nonzero one becomes stored zeros.
  ValueId state(int input, int d) {
    if (is_zero(cell_.h0) && (cell_.op != Op::kLstm || is_zero(Slot::kC0))) return kNone;
    if (!source_.given(input)) {
      import_.spend(uint64_t(checked_elements(source_.place, {batch_, width_})) * sizeof(float));
      return import_.reals(source_.name + "/zeros", {batch_, width_}, std::vector<float>(size_t(batch_ * width_), 0));
    }
    const OperandPtr& given = source_.operand(input);
    need_float32(source_, *given);
    const std::vector<int64_t> dims = state_dims();
    const int axis = batch_first_ ? 1 : 0;
    Part part = {{0, 0, 0}, dims, {1, 1, 1}};
    part.begin[size_t(axis)] = d;
    part.size[size_t(axis)] = 1;
    if (is_constant(input)) {
      Value value = reshaped(sliced(decoded(*given->constant), part), {batch_, width_});
      value.name = named(input, d);
      return import_.graph().add(std::move(value));
    }
    ValueId x = import_.plain(given);
    if (directions_ == 2) {
      Node node = import_.step(Op::kSlice);
      for (int i = 0; i < 3; ++i) {
        set_integer(node, "begin", int(part.begin[size_t(i)]), i);
        set_integer(node, "size", int(part.size[size_t(i)]), i);
        set_integer(node, "step", 1, i);
      }
      node.inputs = {x};
      x = import_.append(std::move(node), named(input, d));
    }
    return import_.reshaped(x, {batch_, width_}, named(input, d) + "/state");
  }

  // Returns whether both biases are trained, each by the gradient of their sum. In files of other producers than
  // PyTorch the second bias is trained only if it has a number that is not 0.
  bool trains_two_biases(const std::vector<float>& second) const {
    return import_.options().train &&
           (import_.parameters().of_torch() || std::ranges::any_of(second, [](float number) { return number != 0; }));
  }

  ValueId projection(ValueId x, int d, bool inside, const std::string& name) {
    const int64_t in = import_.value(x).dims[2], rows = cell_.gates * width_;
    Node dense = import_.step(Op::kDense);
    ValueId bias = kNone;
    if (source_.given(cell_.bias)) {
      const std::vector<float> own = rows_of(cell_.bias, d, 1), other = rows_of(cell_.bias, d, 1, cell_.gates);
      const bool two = trains_two_biases(other);
      std::vector<float> sum = own;
      for (size_t i = 0; i < sum.size() && !inside && !two; ++i) sum[i] += other[i];
      bias = stored(cell_.bias, d, "", {rows}, sum);
      if (two && !inside) {
        Node both = import_.step(Op::kAdd);
        both.inputs = {bias, stored(cell_.bias, d, "/recurrent", {rows}, other)};
        bias = import_.append(std::move(both), name + "/biases");
      }
    }
    dense.inputs = {x, stored(Slot::kW, d, "", {rows, in}, rows_of(Slot::kW, d, in)), bias};
    return import_.append(std::move(dense), name + "/gates");
  }

  Direction direction(int d, bool reversed) {
    const std::string name = source_.name + (directions_ == 1 ? "" : d == 0 ? "/forward" : "/reverse");
    const bool reset_after = cell_.op == Op::kGru && source_.integer("linear_before_reset", 0) != 0;
    const int64_t rows = cell_.gates * width_;
    ValueId x = batch_first();
    if (reversed) x = turned(x, name + "/turned");
    x = projection(x, d, reset_after, name);
    Node node = import_.step(cell_.op);
    if (cell_.op == Op::kGru) set_integer(node, "reset_after", reset_after ? 1 : 0);
    const ValueId w = stored(Slot::kR, d, "", {rows, width_}, rows_of(Slot::kR, d, width_));
    const ValueId bias = reset_after && source_.given(cell_.bias)
                             ? stored(cell_.bias, d, "/recurrent", {rows}, rows_of(cell_.bias, d, 1, cell_.gates))
                             : kNone;
    node.inputs = {x, w, bias, state(cell_.h0, d)};
    if (cell_.op == Op::kLstm) node.inputs.push_back(state(Slot::kC0, d));
    Direction made = {kNone, kNone, kNone};
    if (source_.wants(2) && cell_.op == Op::kLstm) {  // an lstm with three outputs gives its gates and cells too
      ValueId outputs[3];
      const char* const names[] = {"/y", "/kept_gates", "/cells"};
      for (int i = 0; i < 3; ++i) {
        Value value;
        value.name = name + names[i];
        outputs[i] = import_.graph().add(std::move(value));
      }
      node.outputs.assign(outputs, outputs + 3);
      infer_shapes(import_.graph(), node);
      import_.graph().nodes.push_back(std::move(node));
      made.y = outputs[0];
      made.c = step_of(outputs[2], time_ - 1, name + "/last_cell");
    } else {
      made.y = import_.append(std::move(node), name + "/y");
    }
    if (source_.wants(1)) made.h = step_of(made.y, time_ - 1, name + "/last");
    if (reversed && source_.wants(0)) made.y = turned(made.y, name + "/y_turned");
    return made;
  }

  // Gives output `index` in the axis order of the file. `parts` holds [batch, time, h] for each direction.
  void give(int index, const std::vector<ValueId>& parts, int64_t time) {
    if (!source_.wants(index)) return;
    const std::string name = import_.output_name(index);
    ValueId y = parts[0];
    if (directions_ == 2) {
      Node concat = import_.step(Op::kConcat);
      for (const ValueId part : parts)
        concat.inputs.push_back(
            import_.reshaped(part, {batch_, time, 1, width_}, import_.value(part).name + "/direction"));
      set_integer(concat, "axis", 2);
      y = import_.append(std::move(concat), name + "/directions");
    }
    // Y is [time, directions, batch, h] or [batch, time, directions, h]. Y_h and Y_c have no axis of time.
    if (batch_first_) {
      const std::vector<int64_t> last = {batch_, directions_, width_}, all = {batch_, time, directions_, width_};
      return import_.give_plain(index, import_.reshaped(y, index == 0 ? all : last, name));
    }
    if (directions_ == 2) {
      y = import_.transposed(y, {1, 2, 0, 3}, name);
    } else {
      y = import_.transposed(y, {1, 0, 2}, name + "/time_first");
    }
    const std::vector<int64_t> last = {directions_, batch_, width_}, all = {time, directions_, batch_, width_};
    import_.give_plain(index, import_.reshaped(y, index == 0 ? all : last, name + "/shape"));
  }

  Import& import_;
  const Source& source_;
  const Cell& cell_;
  bool reverse_ = false, batch_first_ = false;
  int directions_ = 1;
  int64_t batch_ = 0, time_ = 0, width_ = 0;
};

template <const Cell& kCell>
void recur(Import& import, const Source& source) {
  if (!import_with_lengths(import, source)) Recurrent(import, source, kCell).run();
}

constexpr OperatorImporter kRecurrentImporters[] = {{"LSTM", recur<kLstmCell>}, {"GRU", recur<kGruCell>}};

}  // namespace

std::span<const OperatorImporter> recurrent_importers() { return kRecurrentImporters; }

}  // namespace nacre::tools::onnx_import
