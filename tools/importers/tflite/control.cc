// Converts WHILE, IF and STABLEHLO_COMPOSITE. Control flow is computed while reading. The condition of a loop must
// depend on stored numbers and counters alone: the loop becomes its body, once per turn. An IF becomes the graph that
// its condition takes. If that is known only at run time, both graphs run and a select node takes one result.
//
//   WHILE  while (cond(x..)) x.. = body(x..);   y.. = x..
//   IF     y.. = c ? then(x..) : else(x..)
//   STABLEHLO_COMPOSITE  y.. = decomposition(x..)
//
// Values pass from one graph to the other unchanged, so codes keep their scales. rows.cc handles the lists that a loop
// fills.
#include <algorithm>

#include "tools/importers/tflite/reader.h"
#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

constexpr int kMaxDepth = 8;                 // most levels of graphs that call graphs
constexpr int64_t kMostOperators = 1 << 16;  // most operators of all turns together
constexpr size_t kMostSteps = 20000;         // most nodes of the graph

// Replaces the scope by another graph's, as long as this object lives.
class OtherGraph {
 public:
  OtherGraph(Scope& scope, Scope inner) : scope_(scope), outer_(std::exchange(scope, std::move(inner))) {}
  ~OtherGraph() { scope_ = std::move(outer_); }
  OtherGraph(const OtherGraph&) = delete;
  OtherGraph& operator=(const OtherGraph&) = delete;

 private:
  Scope& scope_;
  Scope outer_;
};

bool is_true(Importer& importer, const Operation& op, const Argument& x, const char* unknown) {
  if (x.value == kNone || !importer.value(x.value).constant()) importer.unsupported(op, unknown);
  const Value& v = importer.value(x.value);
  if (v.stored != ElementType::kBool || v.elements() != 1) importer.bad(op, "a condition that is not one bool");
  return (*v.data)[0] != 0;
}

void convert_while(Importer& importer, Operation& op) {
  const auto& options = importer.options<WhileOptions>(op);
  std::vector<Argument> carried = importer.calls().arguments(op, 0);
  const size_t problems = importer.file().problems().size();
  while (importer.file().problems().size() == problems) {  // stops at the first turn with problems
    const std::vector<Argument> going = importer.calls().call(op, options.cond_subgraph_index(), carried);
    if (importer.file().problems().size() != problems) break;
    if (going.size() != 1) importer.bad(op, "a condition that is not one bool");
    if (!is_true(importer, op, going[0], "a loop whose number of turns is known only at run time")) break;
    carried = importer.calls().call(op, options.body_subgraph_index(), carried);
    if (carried.size() != op.inputs.size()) importer.bad(op, "its body gives another number of tensors than it takes");
  }
  importer.calls().give(op, carried);
}

// Converts an IF whose condition c only a run knows: y = c ? a : b for the results a, b of both graphs.
void choose(Importer& importer, Operation& op, ValueId c, const IfOptions& options) {
  const size_t steps = importer.graph().nodes.size();
  const std::vector<Argument> arguments = importer.calls().arguments(op, 1),
                              a = importer.calls().call(op, options.then_subgraph_index(), arguments),
                              b = importer.calls().call(op, options.else_subgraph_index(), arguments);
  const auto stores = [](const Node& node) { return node.op == Op::kStore; };
  const std::vector<Node>& nodes = importer.graph().nodes;
  if (std::any_of(nodes.begin() + std::ptrdiff_t(steps), nodes.end(), stores))
    importer.unsupported(op, "a choice between two graphs that change variables");
  if (a.size() != op.outputs.size() || b.size() != a.size())
    importer.bad(op, "its graphs give other numbers of tensors");
  Steps s(importer, op);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].value == kNone || b[i].value == kNone || s.dims(a[i].value) != s.dims(b[i].value))
      importer.unsupported(op, "a choice between tensors of several shapes");
    if (s.type(a[i].value) != s.type(b[i].value)) importer.bad(op, "its graphs give several types");
    const ValueId one = s.reshape(c, std::vector<int64_t>(s.dims(a[i].value).size(), 1));
    importer.emit(op, {.op = Op::kSelect,
                       .name = "",
                       .words = {},
                       .inputs = {a[i].value, b[i].value, one},
                       .outputs = {importer.output(op, i)}});
  }
}

void convert_if(Importer& importer, Operation& op) {
  const auto& options = importer.options<IfOptions>(op);
  const ValueId c = importer.input(op, 0);
  const Value& v = importer.value(c);
  if (!v.constant() && v.type == ElementType::kBool && v.elements() == 1) return choose(importer, op, c, options);
  const bool taken = is_true(importer, op, {.value = importer.input(op, 0)},
                             "a choice between two graphs that is made only at run time");
  const int graph = taken ? options.then_subgraph_index() : options.else_subgraph_index();
  importer.calls().give(op, importer.calls().call(op, graph, importer.calls().arguments(op, 1)));
}

// Converts a composite, a named graph of the file. litert-torch and TensorFlow mark layers so.
void convert_composite(Importer& importer, Operation& op) {
  const auto* options = op.record->builtin_options_2_as<StableHLOCompositeOptions>();
  if (options == nullptr) importer.bad(op, "has no options of its kind");
  importer.calls().give(
      op, importer.calls().call(op, options->decomposition_subgraph_index(), importer.calls().arguments(op, 0)));
}

}  // namespace

std::vector<Argument> Calls::arguments(const Operation& op, size_t first) {
  std::vector<Argument> all;
  for (size_t i = first; i < op.inputs.size(); ++i) {
    const bool is_noted = op.has_input(i) && scope_.values[size_t(op.inputs[i])] == kNone;
    const auto rows = is_noted ? scope_.rows.find(op.inputs[i]) : scope_.rows.end();
    if (rows != scope_.rows.end()) all.push_back({.value = kNone, .rows = rows->second});
    else all.push_back({.value = importer_.input(op, i)});
  }
  return all;
}

void Calls::check_alike(const Operation& op, const Value& declared, const Value& found) const {
  const std::optional<Quantizer>&a = declared.quantizer, &b = found.quantizer;
  const bool same_codes =
      a.has_value() == b.has_value() && (!a || (a->codes == b->codes && a->scale == b->scale && a->zero == b->zero));
  if (declared.type != found.type) importer_.bad(op, found.name + " becomes a tensor of another type");
  if (!same_codes) importer_.unsupported(op, found.name + " becomes a tensor whose codes have another scale");
}

void Calls::bind(const Operation& op, int id, const Argument& argument) {
  if (id == kNone || scope_.tensors.has_data(id) || scope_.values[size_t(id)] != kNone || scope_.rows.contains(id))
    importer_.bad(op, "calls a graph whose list of inputs is no list of tensors");
  if (scope_.tensors.is_list(id)) {
    if (argument.value != kNone) importer_.bad(op, "a tensor becomes a list");
    scope_.rows[id] = argument.rows;
    return;
  }
  const Value declared = scope_.tensors.value(id);
  if (argument.value == kNone) {
    for (const Run& run : argument.rows.runs) check_row(op, declared, run);
    scope_.rows[id] = argument.rows;
    return;
  }
  check_alike(op, declared, importer_.value(argument.value));
  scope_.values[size_t(id)] = argument.value;
}

std::vector<Argument> Calls::call(const Operation& op, int index, const std::vector<Argument>& arguments) {
  const SubGraph& graph = importer_.file().called_graph(op, index);
  if (!importer_.file().batch().same)
    importer_.unsupported(op, "a graph that is called, under another batch than the file's");
  if (scope_.depth >= kMaxDepth)
    importer_.bad(op, "graphs call graphs more than " + std::to_string(kMaxDepth) + " deep");
  called_operators_ += 1 + int64_t(size_of(graph.operators()));
  if (called_operators_ > kMostOperators || importer_.graph().nodes.size() > kMostSteps)
    importer_.unsupported(op, "a loop whose turns, one after the other, are more than " + std::to_string(kMostSteps) +
                                  " steps (a layer with unroll=False over a long sequence)");
  const OtherGraph other(scope_, Scope(importer_.file(), graph, scope_.depth + 1));
  const std::vector<int> inputs = scope_.tensors.operands(graph.inputs(), "the inputs of a graph that is called");
  if (inputs.size() != arguments.size()) importer_.bad(op, "calls a graph that takes another number of tensors");
  for (size_t i = 0; i < inputs.size(); ++i) bind(op, inputs[i], arguments[i]);
  reader_.read_operations();
  Operation results{.code_name = op.code_name, .name = op.name};
  results.inputs = scope_.tensors.operands(graph.outputs(), "the outputs of a graph that is called");
  return this->arguments(results, 0);
}

void Calls::give(const Operation& op, const std::vector<Argument>& results) {
  if (results.size() != op.outputs.size())
    importer_.bad(op, "gives out another number of tensors than the graph that it calls");
  for (size_t i = 0; i < results.size(); ++i) {
    const int id = op.outputs[i];
    if (results[i].value == kNone) scope_.rows[id] = results[i].rows;
    else scope_.values[size_t(id)] = results[i].value;
    if (!scope_.is_result(id) || (results[i].value != kNone && importer_.value(results[i].value).constant())) continue;
    const ValueId x = importer_.made(id);  // an output of the network needs its own name
    scope_.values[size_t(id)] = kNone;
    Operation copy{.code_name = op.code_name, .name = scope_.tensors.name(id), .outputs = {id}};
    importer_.emit(copy,
                   {.op = Op::kCopy, .name = "", .words = {}, .inputs = {x}, .outputs = {importer_.output(copy)}});
  }
}

std::span<const Converter> control_converters() {
  static constexpr Converter kRows[] = {
      {BuiltinOperator::WHILE, &convert_while},
      {BuiltinOperator::IF, &convert_if},
      {BuiltinOperator::STABLEHLO_COMPOSITE, &convert_composite},
  };
  return kRows;
}

}  // namespace nacre::tools::tflite
