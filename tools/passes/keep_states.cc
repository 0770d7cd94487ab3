// keep_states: the model itself keeps inputs that are outputs of the run before, and inputs that count the stream's
// position. A run has L rows (tokens). The runs before it had t:
//
//   IN=OUT         s [.., m, ..] = the last m rows of OUT [.., n, ..]; all of OUT if n = m
//   IN=@position   t, t + 1, .. t + L - 1 along the last axis; t if that axis is 1
//   IN=@mask       1 for each of a cache's n rows that has been filled, else 0. The first t + L rows are filled, and a
//                  run with t + L > n is refused. If a state slides (n > m, the oldest rows leave), the last t + L
//                  rows are filled.
#include <algorithm>
#include <cstring>
#include <optional>

#include "engine/ops/select.h"
#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/graph/batch.h"
#include "tools/graph/operands.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

constexpr const char* kPosition = "@position";
constexpr const char* kMask = "@mask";

struct Pair {
  std::string text, in, out;

  bool counts() const { return out == kPosition || out == kMask; }
};

Pair parse_pair(const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw Error(kUsage, option("state", text), "is not IN=OUT, an input's name and an output's, @position or @mask");
  return {option("state", text), text.substr(0, at), text.substr(at + 1)};
}

ValueId take(std::vector<Binding>& bindings, const std::string& name, const Pair& pair, const char* kind) {
  const auto found = std::ranges::find(bindings, name, &Binding::name);
  if (found == bindings.end()) {
    std::string names;
    for (const Binding& b : bindings) names += (names.empty() ? "" : ", ") + b.name;
    throw Error(kUsage, pair.text, "the network has no " + std::string(kind) + " " + name, "it has " + names);
  }
  const ValueId id = found->value;
  bindings.erase(found);
  return id;
}

// Returns the axis along which `out` has more rows than `in`, all other axes being equal. nullopt if there is none.
std::optional<size_t> longer_axis(const std::vector<int64_t>& in, const std::vector<int64_t>& out) {
  std::optional<size_t> longer;
  if (in.size() != out.size()) return longer;
  for (size_t axis = 0; axis < in.size(); ++axis) {
    if (in[axis] == out[axis]) continue;
    if (longer || out[axis] < in[axis]) return std::nullopt;
    longer = axis;
  }
  return longer;
}

class States {
 public:
  explicit States(Graph& graph) : graph_(graph), batched_(std::ranges::any_of(graph.values, &Value::batched)) {}

  void keep(const Pair& pair) {
    const ValueId s = take(graph_.inputs, pair.in, pair, "input");
    ValueId x = take(graph_.outputs, pair.out, pair, "output");
    const Value in = value(s), out = value(x);
    const std::optional<size_t> axis = longer_axis(in.dims, out.dims);
    if ((in.dims != out.dims && !axis) || in.type != out.type)
      throw Error(kUsage, pair.text,
                  "its input is " + std::string(name_of(in.type)) + " " + shape_text(in.dims) + ", its output " +
                      name_of(out.type) + " " + shape_text(out.dims));
    if (in.quantizer || out.quantizer) throw Error(kUnsupported, pair.text, "a state in codes is not supported");
    if (graph_.outputs.empty()) throw Error(kUsage, pair.text, "leaves the network without an output");
    if (axis) x = last_rows(x, in.dims, *axis, pair.out);
    store(x, s, pair.out);
  }

  void count(const std::vector<Pair>& pairs) {
    std::vector<ValueId> inputs;
    for (const Pair& pair : pairs) inputs.push_back(take(graph_.inputs, pair.in, pair, "input"));
    if (graph_.inputs.empty()) throw Error(kUsage, pairs[0].text, "leaves the network without an input");
    const std::vector<int64_t>& first = value(graph_.inputs[0].value).dims;
    rows_ = first.empty() ? 1 : first[first.size() > 1 ? 1 : 0];
    before_ = made("rows before", ElementType::kInt64, {});
    value(before_).region = Region::kStream;
    for (size_t i = 0; i < pairs.size(); ++i) count(pairs[i], inputs[i]);
    const ValueId rows = constant("rows of a run", {}, {rows_});
    const ValueId now = made("rows now", ElementType::kInt64, {});
    step(Op::kAdd, {before_, rows}, now);
    store(now, before_, "rows before");
  }

  void finish() {
    graph_.nodes.insert(graph_.nodes.begin(), first_.begin(), first_.end());
    graph_.nodes.insert(graph_.nodes.end(), last_.begin(), last_.end());
    mark_batched(graph_, batched_);
  }

 private:
  Value& value(ValueId id) { return graph_.values[size_t(id)]; }

  ValueId made(const std::string& name, ElementType type, std::vector<int64_t> dims) {
    Value v;
    v.name = name;
    v.type = type;
    v.dims = std::move(dims);
    return graph_.add(std::move(v));
  }

  ValueId constant(const std::string& name, std::vector<int64_t> dims, const std::vector<int64_t>& numbers) {
    const ValueId id = made(name, ElementType::kInt64, std::move(dims));
    std::vector<uint8_t> bytes(numbers.size() * sizeof(int64_t));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    value(id).data = std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
    value(id).stored = ElementType::kInt64;
    return id;
  }

  ValueId like(ValueId x, const std::string& name) { return made(name, value(x).type, value(x).dims); }

  Node& step(Op op, std::vector<ValueId> inputs, ValueId y) {
    first_.push_back(make_step(op, Node(), value(y).name, std::move(inputs), {y}));
    return first_.back();
  }

  ValueId last_rows(ValueId x, const std::vector<int64_t>& dims, size_t axis, const std::string& name) {
    const int64_t more = value(x).dims[axis] - dims[axis];
    grows_.push_back(more);
    const ValueId y = made(name + "/last", value(x).type, dims);
    Node node = make_step(Op::kSlice, Node(), name + "/last", {x}, {y});
    for (size_t i = 0; i < dims.size(); ++i) set_integer(node, "size", int(dims[i]), int(i));
    set_integer(node, "begin", int(more), int(axis));
    last_.push_back(std::move(node));
    graph_.log.push_back("keep_states: " + name + " slides: its last " + std::to_string(dims[axis]) +
                         " rows are kept, zeros until there are so many");
    return y;
  }

  void store(ValueId x, ValueId s, const std::string& name) {
    const ValueId y = like(x, name + "/stored");
    value(s).region = Region::kStream;
    last_.push_back(make_step(Op::kStore, Node(), name + "/store", {x, s}, {y}));
  }

  void count(const Pair& pair, ValueId in) {
    const std::vector<int64_t> dims = value(in).dims;
    const int64_t n = dims.empty() ? 1 : dims.back();
    if (value(in).quantizer || value(in).elements() != n)
      throw Error(kUnsupported, pair.text,
                  "its input is " + shape_text(dims) +
                      ", of which only the last axis may be "
                      "longer than 1");
    graph_.budget.take(uint64_t(n) * (sizeof(int64_t) + sizeof(float)), graph_.source + ": " + pair.in,
                       "the numbers of its places", "give it in every run");
    if (pair.out == kPosition) positions(pair, in, n);
    else mask(pair, in, n);
  }

  // Adds the step that computes the input `in` as `type`, and a cast if the network reads another type.
  void give(Op op, const std::vector<ValueId>& operands, ElementType type, ValueId in, int function = 0) {
    const ValueId y = value(in).type == type ? in : made(value(in).name + "/counted", type, value(in).dims);
    Node& node = step(op, operands, y);
    if (function != 0) set_integer(node, "function", function);
    if (y != in) step(Op::kCast, {y}, in);
  }

  void positions(const Pair& pair, ValueId in, int64_t n) {
    if (n != 1 && n != rows_) refuse_places(pair, n);
    give(Op::kAdd, {counted(in, 0, n), before_}, ElementType::kInt64, in);
  }

  // Sets the mask of a cache that grows: row i is filled if i - L < t. For a state that slides: if n - 1 - i - L < t.
  void mask(const Pair& pair, ValueId in, int64_t n) {
    for (const int64_t more : grows_)
      if (more != rows_)
        throw Error(kUsage, pair.text, "a state grows by " + std::to_string(more) + " rows, and a run " + rows_text());
    if (n < rows_) refuse_places(pair, n);
    const bool slides = !grows_.empty();
    const ValueId places = slides ? counted(in, n - 1 - rows_, n, -1) : counted(in, -rows_, n);
    const ValueId before = slides ? before_ : with_room(in, n - rows_);
    give(Op::kCompare, {places, before}, ElementType::kBool, in, int(Compare::kLess));
  }

  // Returns t, and makes a run with t beyond `most` fail: the step adds row t of a table of zeros.
  ValueId with_room(ValueId in, int64_t most) {
    const std::string name = value(in).name;
    const ValueId zeros = graph_.constant(name + "/room", {most + 1, 1}, std::vector<float>(size_t(most + 1), 0));
    const ValueId zero = made(name + "/zero", ElementType::kFloat32, {1});
    const ValueId whole = made(name + "/whole", ElementType::kInt64, {1});
    const ValueId before = made(name + "/before", ElementType::kInt64, {1});
    step(Op::kEmbedding, {zeros, before_}, zero);
    step(Op::kCast, {zero}, whole);
    step(Op::kAdd, {before_, whole}, before);
    return before;
  }

  // Returns n numbers from `first` on, in the shape of `in`.
  ValueId counted(ValueId in, int64_t first, int64_t n, int64_t by = 1) {
    std::vector<int64_t> numbers(size_t(n), 0);
    for (int64_t i = 0; i < n; ++i) numbers[size_t(i)] = first + by * i;
    return constant(value(in).name + "/places", value(in).dims, numbers);
  }

  [[noreturn]] void refuse_places(const Pair& pair, int64_t n) const {
    throw Error(kUsage, pair.text, "its input has " + std::to_string(n) + " places, and a run " + rows_text());
  }

  std::string rows_text() const { return "has " + std::to_string(rows_) + ", as " + graph_.inputs[0].name + " says"; }

  Graph& graph_;
  const bool batched_;
  std::vector<Node> first_, last_;  // run before and after the network's nodes
  std::vector<int64_t> grows_;      // per state that slides: the rows that leave it in a run
  int64_t rows_ = 1;                // L
  ValueId before_ = kNone;          // t
};

}  // namespace

void keep_states(Graph& graph, const std::vector<std::string>& pairs) {
  if (pairs.empty()) return;
  States states(graph);
  std::vector<Pair> counted;
  for (const std::string& text : pairs) {
    Pair pair = parse_pair(text);
    if (pair.counts()) counted.push_back(std::move(pair));
    else states.keep(pair);
  }
  if (!counted.empty()) states.count(counted);
  states.finish();
}

}  // namespace nacre::tools
