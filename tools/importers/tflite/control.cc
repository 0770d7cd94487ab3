// WHILE and IF: control flow that is known while reading. A loop whose condition depends on what is stored, and on
// counters, is its body, once per turn; a branch is the graph that its condition takes, or of both what a run chooses.
//
//   WHILE  while (cond(x..)) x.. = body(x..);   y.. = x..
//   IF     y.. = c ? then(x..) : else(x..)
//   STABLEHLO_COMPOSITE  y.. = decomposition(x..)
//
// The values of one graph are handed to the other as they are: codes keep their scales. rows.cc has the lists
// that a loop fills.
#include <algorithm>

#include "tools/importers/tflite/steps.h"

namespace nacre::tools::tflite {
namespace {

constexpr int kMaxDepth = 8;                 // of graphs in graphs
constexpr int64_t kMostOperators = 1 << 16;  // of all turns
constexpr size_t kMostSteps = 20000;         // of the program

// While it lives another graph is read.
class OtherGraph {
 public:
  explicit OtherGraph(Scope& scope) : scope_(scope), outer_(std::move(scope)) { scope_.depth = outer_.depth; }
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
  std::vector<Argument> carried = importer.arguments(op, 0);
  const size_t problems = importer.problems();
  while (importer.problems() == problems) {  // of the first turn that has any
    const std::vector<Argument> going = importer.call(op, options.cond_subgraph_index(), carried);
    if (importer.problems() != problems) break;
    if (going.size() != 1) importer.bad(op, "a condition that is not one bool");
    if (!is_true(importer, op, going[0], "a loop whose number of turns is known only at run time")) break;
    carried = importer.call(op, options.body_subgraph_index(), carried);
    if (carried.size() != op.inputs.size()) importer.bad(op, "its body gives another number of tensors than it takes");
  }
  importer.give(op, carried);
}

// y = c ? a : b of what both graphs give, where only a run knows c.
void choose(Importer& importer, Operation& op, ValueId c, const IfOptions& options) {
  const size_t steps = importer.graph().nodes.size();
  const std::vector<Argument> arguments = importer.arguments(op, 1),
                              a = importer.call(op, options.then_subgraph_index(), arguments),
                              b = importer.call(op, options.else_subgraph_index(), arguments);
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
  importer.give(op, importer.call(op, graph, importer.arguments(op, 1)));
}

// A name for what a graph of the file computes: of a layer, as litert-torch and TensorFlow mark it.
void convert_composite(Importer& importer, Operation& op) {
  const auto* options = op.record->builtin_options_2_as<StableHLOCompositeOptions>();
  if (options == nullptr) importer.bad(op, "has no options of its kind");
  importer.give(op, importer.call(op, options->decomposition_subgraph_index(), importer.arguments(op, 0)));
}

}  // namespace

std::vector<Argument> Importer::arguments(const Operation& op, size_t first) {
  std::vector<Argument> all;
  for (size_t i = first; i < op.inputs.size(); ++i) {
    const bool is_noted = has_input(op, i) && scope_.values[size_t(op.inputs[i])] == kNone;
    const auto rows = is_noted ? scope_.rows.find(op.inputs[i]) : scope_.rows.end();
    if (rows != scope_.rows.end()) all.push_back({.value = kNone, .rows = rows->second});
    else all.push_back({.value = input(op, i)});
  }
  return all;
}

void Importer::check_alike(const Operation& op, const Value& declared, const Value& found) const {
  const std::optional<Quantizer>&a = declared.quantizer, &b = found.quantizer;
  const bool same_codes =
      a.has_value() == b.has_value() && (!a || (a->codes == b->codes && a->scale == b->scale && a->zero == b->zero));
  if (declared.type != found.type) bad(op, found.name + " becomes a tensor of another type");
  if (!same_codes) unsupported(op, found.name + " becomes a tensor whose codes have another scale");
}

void Importer::bind(const Operation& op, int id, const Argument& argument) {
  if (id == kNone || has_data(id) || scope_.values[size_t(id)] != kNone || scope_.rows.contains(id))
    bad(op, "calls a graph whose list of inputs is no list of tensors");
  if (is_list(id)) {
    if (argument.value != kNone) bad(op, "a tensor becomes a list");
    scope_.rows[id] = argument.rows;
    return;
  }
  const Value declared = make_value(id);
  if (argument.value == kNone) {
    for (const Run& run : argument.rows.runs) check_row(op, declared, run);
    scope_.rows[id] = argument.rows;
    return;
  }
  check_alike(op, declared, value(argument.value));
  scope_.values[size_t(id)] = argument.value;
}

std::vector<Argument> Importer::call(const Operation& op, int index, const std::vector<Argument>& arguments) {
  if (index < 1 || size_t(index) >= model_->subgraphs()->size()) bad(op, "calls a graph that does not exist");
  if (!same_batch_) unsupported(op, "a graph that is called, under another batch than the file's");
  if (scope_.depth >= kMaxDepth) bad(op, "graphs call graphs more than " + std::to_string(kMaxDepth) + " deep");
  const SubGraph& graph = *model_->subgraphs()->Get(flatbuffers::uoffset_t(index));
  called_operators_ += 1 + (graph.operators() == nullptr ? 0 : int64_t(graph.operators()->size()));
  if (called_operators_ > kMostOperators || graph_.nodes.size() > kMostSteps)
    unsupported(op, "a loop whose turns, one after the other, are more than " + std::to_string(kMostSteps) +
                        " steps (a layer with unroll=False over a long sequence)");
  const OtherGraph other(scope_);
  enter(graph);
  const std::vector<int> inputs = operands(graph.inputs(), "the inputs of a graph that is called");
  if (inputs.size() != arguments.size()) bad(op, "calls a graph that takes another number of tensors");
  for (size_t i = 0; i < inputs.size(); ++i) bind(op, inputs[i], arguments[i]);
  read_operations();
  Operation results;
  results.name = op.name;
  results.code_name = op.code_name;
  results.inputs = operands(graph.outputs(), "the outputs of a graph that is called");
  return this->arguments(results, 0);
}

void Importer::give(const Operation& op, const std::vector<Argument>& results) {
  if (results.size() != op.outputs.size()) bad(op, "gives out another number of tensors than the graph that it calls");
  for (size_t i = 0; i < results.size(); ++i) {
    const int id = op.outputs[i];
    if (results[i].value == kNone) scope_.rows[id] = results[i].rows;
    else scope_.values[size_t(id)] = results[i].value;
    if (!is_result(id) || (results[i].value != kNone && value(results[i].value).constant())) continue;
    const ValueId x = made(id);  // a result of the network has a name of its own
    scope_.values[size_t(id)] = kNone;
    Operation copy;
    copy.name = tensor_name(id);
    copy.code_name = op.code_name;
    copy.outputs = {id};
    emit(copy, {.op = Op::kCopy, .name = "", .words = {}, .inputs = {x}, .outputs = {output(copy)}});
  }
}

bool Importer::is_result(int id) const {
  const auto* outputs = scope_.graph->outputs();
  return scope_.depth == 0 && outputs != nullptr && std::find(outputs->begin(), outputs->end(), id) != outputs->end();
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
