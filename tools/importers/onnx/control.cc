// Imports control flow that is known at import. An If with a constant condition becomes the branch that it takes. A
// Loop or Scan with a known number of turns becomes its body, once per turn.
//
//   If    y.. = cond ? then_branch() : else_branch()
//   Loop  for (i = 0; i < M && cond; ++i) cond, v.., s_i.. = body(i, cond, v..);   y.. = v.., [s_0, s_1, ..]
//   Scan  for (i = 0; i < T; ++i) v.., s_i.. = body(v.., x[i]..);   y.. = v.., [s_0, s_1, ..]
//
// A graph inside a node sees the names around it. A loop has at most 256 turns, because each turn adds nodes.
#include <algorithm>
#include <functional>
#include <unordered_set>

#include "tools/base/error.h"
#include "tools/importers/onnx/file.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

constexpr int64_t kMostTurns = 256;
constexpr int kMaxDepth = 24;  // depth of nested graphs; no file that can be parsed has more

bool constant_bool(const Source& source, const OperandPtr& x, const char* what) {
  if (!x->constant)
    source.refuse(std::string(what) + ": computed at run time (" + x->name + ")",
                  "only what depends on constants and fixed shapes is known at import: export one path");
  if (x->constant->elements() != 1 || !is_integer(x->constant->stored))
    source.malformed(std::string(what) + " is no bool");
  return integers(*x->constant)[0] != 0;
}

int64_t constant_count(const Source& source, int input, const char* what) {
  const Value& x = source.constant(input, what);
  if (x.elements() != 1 || !is_integer(x.stored)) source.malformed(std::string(what) + " is not one integer");
  return integers(x)[0];
}

OperandPtr scalar(ElementType type, int64_t number) {
  return constant_operand(make_constant("", type, {}, std::vector<int64_t>{number}));
}

// Adds nodes that stack the s_i of all turns along `axis` into one tensor, `name`.
void stack(Body& body, const std::vector<OperandPtr>& turns, int64_t axis, const std::string& name) {
  std::vector<std::string> parts;
  const std::vector<int64_t> axes = {axis};
  const std::string at = body.take(constant_operand(make_constant("", ElementType::kInt64, {1}, axes)));
  for (const OperandPtr& x : turns) {
    parts.push_back(body.fresh(name + "/turn"));
    body.node("Unsqueeze", {body.take(x), at}, parts.back());
  }
  set_attribute(body.node("Concat", parts, name), "axis", axis);
}

class ControlFlow {
 public:
  ControlFlow(Import& import, Scope& scope, const Source& source) : import_(import), scope_(scope), source_(source) {}

  void run_if() {
    const bool taken = constant_bool(source_, source_.operand(0), "its condition");
    const auto& branch = source_.graph(taken ? "then_branch" : "else_branch");
    import_.log().add(source_.place,
                      std::string("is its ") + (taken ? "then" : "else") + "_branch: its condition is constant");
    const std::vector<OperandPtr> results = run_graph(branch, {}, [&](int i) { return source_.wants(i); });
    for (int i = 0; i < source_.proto.output_size() && size_t(i) < results.size(); ++i) {
      if (!results[size_t(i)]) continue;
      results[size_t(i)]->uses += scope_.uses[source_.proto.output(i)] - 1;
      scope_.operands.emplace(source_.proto.output(i), results[size_t(i)]);
    }
  }

  void run_loop() {
    const auto& graph = source_.graph("body");
    const int64_t most = source_.given(0) ? constant_count(source_, 0, "its number of turns") : kMostTurns + 1;
    bool going = !source_.given(1) || constant_bool(source_, source_.operand(1), "its condition");
    std::vector<OperandPtr> carried;
    for (int i = 2; i < int(source_.inputs.size()); ++i) carried.push_back(source_.operand(i));
    const int stacked = graph.output_size() - 1 - int(carried.size());
    if (stacked < 0 || graph.input_size() != int(carried.size()) + 2)
      source_.malformed("its body does not fit its operands");
    std::vector<std::vector<OperandPtr>> turns{size_t(stacked)};
    for (int64_t i = 0; going && i < most; ++i) {
      if (i == kMostTurns) source_.refuse("has more than 256 turns, or as many as it finds at run time");
      std::vector<OperandPtr> inputs = {scalar(ElementType::kInt64, i), scalar(ElementType::kBool, 1)};
      inputs.insert(inputs.end(), carried.begin(), carried.end());
      const auto wanted = [&](int k) { return size_t(k) <= carried.size() || source_.wants(k - 1); };
      const std::vector<OperandPtr> results = run_graph(graph, inputs, wanted);
      for (const OperandPtr& x : results)
        if (x && !x->known()) return leave_unknown();
      going = constant_bool(source_, results[0], "its condition");
      std::copy_n(results.begin() + 1, carried.size(), carried.begin());
      for (size_t k = 0; k < turns.size(); ++k) turns[k].push_back(results[1 + carried.size() + k]);
    }
    give_turns(carried, turns, std::vector<int64_t>(turns.size(), 0));
  }

  void run_scan() {
    const auto& graph = source_.graph("body");
    const auto scanned = size_t(std::clamp<int64_t>(source_.integer("num_scan_inputs", 0), 0, 1 << 16));
    if (source_.opset < 9) source_.refuse("is of opset 8, with a batch and lengths", "export with opset 9 or later");
    if (scanned == 0 || scanned > source_.inputs.size() || graph.input_size() != int(source_.inputs.size()) ||
        graph.output_size() < int(source_.inputs.size() - scanned))
      source_.malformed("its body does not fit its operands");
    const size_t states = source_.inputs.size() - scanned, stacked = size_t(graph.output_size()) - states;
    std::vector<OperandPtr> carried;
    for (size_t i = 0; i < states; ++i) carried.push_back(source_.operand(int(i)));
    const auto list = [&](const char* key, size_t size) {
      const std::vector<int64_t> given = source_.integers(key, std::vector<int64_t>(size, 0));
      if (given.size() != size) source_.malformed(std::string(key) + " has another number of entries");
      return given;
    };
    std::vector<int64_t> axes = list("scan_input_axes", scanned), out_axes = list("scan_output_axes", stacked);
    const std::vector<int64_t> back = list("scan_input_directions", scanned);
    const std::vector<int64_t> out_back = list("scan_output_directions", stacked);
    int64_t count = -1;
    for (size_t k = 0; k < scanned; ++k) {
      const OperandPtr& x = source_.operand(int(states + k));
      axes[k] = source_.axis(axes[k], x->rank());
      if (count >= 0 && x->dims[size_t(axes[k])] != count) source_.malformed("what it scans has several lengths");
      count = x->dims[size_t(axes[k])];
    }
    if (count > kMostTurns) source_.refuse("has more than 256 turns");
    std::vector<std::vector<OperandPtr>> turns(stacked);
    for (int64_t i = 0; i < count; ++i) {
      std::vector<OperandPtr> inputs = carried;
      for (size_t k = 0; k < scanned; ++k)
        inputs.push_back(turn_of(source_.operand(int(states + k)), axes[k], back[k] ? count - 1 - i : i));
      const auto wanted = [&](int k) { return size_t(k) < states || source_.wants(k); };
      const std::vector<OperandPtr> results = run_graph(graph, inputs, wanted);
      for (const OperandPtr& x : results)
        if (x && !x->known()) return leave_unknown();
      std::copy_n(results.begin(), states, carried.begin());
      for (size_t k = 0; k < stacked; ++k)
        turns[k].insert(out_back[k] ? turns[k].begin() : turns[k].end(), results[states + k]);
    }
    for (size_t k = 0; k < stacked && count > 0; ++k)
      if (turns[k][0]) out_axes[k] = source_.axis(out_axes[k], turns[k][0]->rank() + 1);
    give_turns(carried, turns, out_axes);
  }

 private:
  // Imports a graph inside the node. Returns its wanted outputs, and null for unwanted ones. Skips nodes that only
  // unwanted outputs need.
  std::vector<OperandPtr> run_graph(const ::onnx::GraphProto& graph, const std::vector<OperandPtr>& inputs,
                                    const std::function<bool(int)>& wanted) {
    if (scope_.depth >= kMaxDepth)
      throw Error(kBadInput, import_.graph().source, "graphs stand in graphs more than 24 deep");
    FileWalk& walk = import_.walk();
    walk.spend_nodes(count_nodes(graph.node()) + graph.initializer_size() + graph.output_size());
    Scope inner;
    inner.outer = &scope_;
    inner.opsets = scope_.opsets;
    inner.attributes = scope_.attributes;
    inner.depth = scope_.depth + 1;
    read_initializers(inner, graph);
    std::unordered_set<std::string> outputs;
    for (int i = 0; i < graph.output_size(); ++i)
      if (wanted(i)) outputs.insert(graph.output(i).name());
    const NodeList live = live_nodes(in_order(graph.node()), outputs, inner.uses);
    if (size_t(graph.input_size()) < inputs.size())
      throw Error(kBadInput, import_.graph().source, "a graph in it has too few inputs");
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i]->uses += inner.uses[graph.input(int(i)).name()];
      inner.operands.emplace(graph.input(int(i)).name(), inputs[i]);
    }
    for (const ::onnx::NodeProto* node : live) walk.read_node(inner, *node);
    std::vector<OperandPtr> results;
    for (int i = 0; i < graph.output_size(); ++i) {
      const std::string& name = graph.output(i).name();
      results.push_back(wanted(i) ? import_.find(inner, name) : nullptr);
      if (wanted(i) && !results.back()) throw Error(kBadInput, "output " + name, "nothing writes it");
    }
    return results;
  }

  // Gives the last carried values, followed by the stacked scan outputs.
  void give_turns(const std::vector<OperandPtr>& carried, const std::vector<std::vector<OperandPtr>>& turns,
                  const std::vector<int64_t>& axes) {
    Body body(source_);
    body.opset = 13;  // Unsqueeze reads its axes as an operand
    import_.log().add(source_.place, "is written out: its body, for each turn");
    for (const OperandPtr& x : carried) body.give(body.take(x));
    for (size_t i = 0; i < turns.size(); ++i) {
      const std::string name = body.fresh(source_.name + "/scan" + std::to_string(i));
      const bool wanted = source_.wants(int(carried.size() + i));
      if (wanted && turns[i].empty()) source_.refuse("has no turns: what it stacks is empty");
      if (wanted) stack(body, turns[i], axes[i], name);
      body.give(name);
    }
    import_.current().enter(scope_, source_);
    import_.expand(source_, body);
  }

  // Returns x[i] along `axis`, without that axis.
  OperandPtr turn_of(const OperandPtr& x, int64_t axis, int64_t i) {
    const std::string name = source_.name + "/" + x->name + "[" + std::to_string(i) + "]";
    ::onnx::NodeProto proto;
    proto.set_name(source_.name);
    proto.set_op_type("Gather");
    proto.add_input(x->name), proto.add_input(""), proto.add_output(name);
    set_attribute(proto, "axis", axis);
    Scope own;
    own.opsets = scope_.opsets;
    Source gather(proto, source_.opset, nullptr);
    gather.inputs = {x, scalar(ElementType::kInt64, i)};
    import_.current().enter(own, gather);
    find_importer("Gather")->run(import_, gather);
    return own.operands.at(name);
  }

  void leave_unknown() { import_.walk().declared().leave_unknown(scope_, source_.proto, true); }

  Import& import_;
  Scope& scope_;  // the scope around the node
  const Source& source_;
};

}  // namespace

bool run_control_flow(Import& import, Scope& scope, const Source& source) {
  const std::string& op = source.proto.op_type();
  if (!source.main || (op != "If" && op != "Loop" && op != "Scan")) return false;
  ControlFlow node(import, scope, source);
  if (op == "If") node.run_if();
  else if (op == "Loop") node.run_loop();
  else node.run_scan();
  import.current().source = nullptr;
  return true;
}

}  // namespace nacre::tools::onnx_import
