// keep_states: inputs that are the outputs of the run before become the model's own.
#include <algorithm>

#include "tools/base/error.h"
#include "tools/graph/batch.h"
#include "tools/graph/operands.h"
#include "tools/passes/passes.h"

namespace nacre::tools {
namespace {

struct Pair {
  std::string text, in, out;
};

Pair parse_pair(const std::string& text) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    throw Error(kUsage, "--state " + text, "is not IN=OUT, an input's name and an output's");
  return {"--state " + text, text.substr(0, at), text.substr(at + 1)};
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

void check_pair(const Graph& graph, const Pair& pair, const Value& in, const Value& out) {
  if (in.dims != out.dims || in.type != out.type)
    throw Error(kUsage, pair.text,
                "its input is " + std::string(name_of(in.type)) + " " + shape_text(in.dims) + ", its output " +
                    name_of(out.type) + " " + shape_text(out.dims));
  if (in.quantizer || out.quantizer) throw Error(kUnsupported, pair.text, "a state in codes is not supported");
  if (graph.outputs.empty()) throw Error(kUsage, pair.text, "leaves the network without an output");
}

}  // namespace

void keep_states(Graph& graph, const std::vector<std::string>& pairs) {
  if (pairs.empty()) return;
  const bool batched = std::ranges::any_of(graph.values, &Value::batched);
  for (const std::string& text : pairs) {
    const Pair pair = parse_pair(text);
    const ValueId s = take(graph.inputs, pair.in, pair, "input"), x = take(graph.outputs, pair.out, pair, "output");
    check_pair(graph, pair, graph.values[size_t(s)], graph.values[size_t(x)]);
    Value left = graph.values[size_t(x)];
    left.name = pair.out + "/stored";
    left.data = nullptr;
    left.stored = ElementType::kNone;
    const ValueId y = graph.add(std::move(left));
    graph.values[size_t(s)].region = Region::kStream;
    graph.nodes.push_back(make_step(Op::kStore, Node(), pair.out + "/store", {x, s}, {y}));
  }
  mark_batched(graph, batched);
}

}  // namespace nacre::tools
