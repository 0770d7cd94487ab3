// Handles constants that a file computes from other constants, in a graph that is to be trained.
//
// Each such constant is folded as soon as it is read. Folding is right if its elements are elements of initializers
// that nothing else reads: the thirds of a joined matrix, the gates of a recurrence in another order. The folded part
// is then trained in place of the whole. Folding is wrong if an initializer is read twice (w beside w[:2]) or if
// numbers are computed from it (2 w):
//
//   y = f(w)    dL/dw = sum over all y that are computed of w of  (df/dw)^T dL/dy
//
// A first import finds these initializers. In the second import, nodes of the graph compute the constants that depend
// on them, and gradients flow back. If no node can compute a constant, an initializer that is read elsewhere too is
// refused; for any other initializer the folded constant is trained.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "tools/base/error.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/tensor.h"

namespace nacre::tools::onnx_import {
namespace {

// Returns whether the operator only moves elements of its operands. If its operands hold the numbers (indices) of
// their elements, the output then says which elements it takes.
bool moves_elements(const std::string& op) {
  constexpr const char* kOps[] = {"Concat", "DequantizeLinear", "Dropout",  "Expand", "Flatten",
                                  "Gather", "Reshape",          "Slice",    "Split",  "Squeeze",
                                  "Tile",   "Transpose",        "Unsqueeze"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

std::vector<OperandPtr> roots_of(const OperandPtr& x) {
  const OperandPtr& made = x->origin ? x->origin : x;
  return made->roots.empty() ? std::vector<OperandPtr>{made} : made->roots;
}

OperandPtr constant_of(const std::shared_ptr<const Value>& value) {
  return std::make_shared<Operand>(Operand{.type = value->type, .dims = value->dims, .constant = value});
}

// Returns the number of each element of x: its index among the elements of all initializers. Null if arithmetic made x.
std::shared_ptr<const Value> element_numbers(const OperandPtr& x) {
  const OperandPtr& made = x->origin ? x->origin : x;
  std::shared_ptr<const Value> places = made->places;
  if (made->roots.empty()) {
    std::vector<int64_t> numbers(size_t(made->constant->elements()));
    std::iota(numbers.begin(), numbers.end(), made->first_place);
    places = std::make_shared<const Value>(make_constant("", ElementType::kInt64, made->dims, numbers));
  }
  if (!places) return nullptr;
  Value moved = *places;
  for (const Move& move : x->moves) {
    if (move.kind == Move::kOther) return nullptr;
    moved = move.kind == Move::kReshape ? reshaped(moved, move.to) : permuted(moved, {move.to.begin(), move.to.end()});
  }
  return std::make_shared<const Value>(std::move(moved));
}

// Imports the current node again with `inputs` in place of its own operands. Returns its outputs, each null if the
// importer refuses or does not give it.
std::vector<OperandPtr> outputs_with(Import& import, const Source& source, const OperatorImporter* importer,
                                     std::vector<OperandPtr> inputs) {
  CurrentNode& current = import.current();
  Scope own;
  own.opsets = current.scope->opsets;
  own.depth = current.scope->depth;
  Source other = source;
  other.inputs = std::move(inputs);
  Scope* const scope = std::exchange(current.scope, &own);
  const Source* const before = std::exchange(current.source, &other);
  bool done = importer != nullptr;
  std::vector<std::string>& refusals = import.log().refusals();
  const size_t refused = refusals.size();
  try {
    if (done) importer->run(import, other);
  } catch (const Error& error) {
    if (error.code != kUnsupported) throw;
    done = false;
  }
  done = done && refusals.size() == refused;  // no node that the importer expanded this one to was refused
  refusals.resize(refused);
  current.scope = scope;
  current.source = before;
  std::vector<OperandPtr> outputs;
  for (const std::string& name : source.proto.output()) {
    const auto found = own.operands.find(name);
    outputs.push_back(done && found != own.operands.end() ? found->second : nullptr);
  }
  return outputs;
}

}  // namespace

bool Parameters::computes(const std::vector<OperandPtr>& roots, const std::set<std::string>& names) {
  return std::any_of(roots.begin(), roots.end(), [&](const OperandPtr& root) { return names.contains(root->name); });
}

bool Parameters::is_variable(const OperandPtr& x) const {
  return is_trainable(*x->constant) &&
         std::ranges::any_of(roots_of(x), [&](const OperandPtr& root) { return is_variable(*root->constant); });
}

bool Parameters::is_shared(const OperandPtr& x) const { return computes(roots_of(x), split_.shared); }

void Parameters::number(const std::vector<OperandPtr>& roots) {
  for (const OperandPtr& root : roots) {
    if (root->first_place >= 0) continue;
    root->first_place = places_;
    places_ += root->constant->elements();
  }
}

// Returns whether the node is an Expand or Tile, or a Gather that reads a value made by one: positions repeated for the
// batch. Nodes of the graph compute its output, even if the batch is 1, so that any batch gives the same graph.
bool Parameters::repeats(const ::onnx::NodeProto& node) {
  const bool itself = node.op_type() == "Expand" || node.op_type() == "Tile";
  const bool reads = std::ranges::any_of(node.input(), [&](const std::string& x) { return of_batch_.contains(x); });
  if (itself || reads) of_batch_.insert(node.output().begin(), node.output().end());
  return itself || (reads && node.op_type() == "Gather");
}

void Parameters::note_computed(Scope& scope, const Source& source, const OperatorImporter* importer) {
  if (!train_) return;
  const bool repeated = repeats(source.proto);
  if (source.proto.op_type() == "Identity") return;
  const bool codes = source.proto.op_type() == "DequantizeLinear";
  bool takes_other = false;
  std::vector<OperandPtr> roots, numbered = source.inputs, by_steps = source.inputs;
  for (size_t i = 0; i < source.inputs.size(); ++i) {
    const OperandPtr& x = source.inputs[i];
    if (x && !x->constant) takes_other = true;  // CastLike reads only the type of such an operand
    if (!x || !x->constant || !(is_trainable(*x->constant) || (codes && i == 0))) continue;
    for (const OperandPtr& root : roots_of(x))
      if (std::find(roots.begin(), roots.end(), root) == roots.end()) roots.push_back(root);
  }
  std::vector<OperandPtr> made;
  for (int i = 0; i < source.proto.output_size(); ++i) {
    const OperandPtr y = source.wants(i) ? import_.find(scope, source.proto.output(i)) : nullptr;
    const bool here = y && y->constant && !y->origin && y->roots.empty() &&
                      std::find(source.inputs.begin(), source.inputs.end(), y) == source.inputs.end();
    made.push_back(here && y->type == ElementType::kFloat32 ? y : nullptr);
  }
  if (roots.empty()) {  // computed from no parameter
    for (const OperandPtr& y : made) {
      if (!y || (source.proto.op_type() == "Constant" && !torch_.wrote && y->constant->elements() > 1)) continue;
      Value fixed = *y->constant;
      fixed.fixed = true;
      y->constant = std::make_shared<const Value>(std::move(fixed));
    }
    return;
  }
  if (takes_other || std::all_of(made.begin(), made.end(), [](const OperandPtr& y) { return !y; })) return;
  number(roots);
  if (repeated)
    for (const OperandPtr& root : roots) repeated_.insert(root->name);
  std::vector<OperandPtr> places(made.size()), steps(made.size());
  if (moves_elements(source.proto.op_type())) {
    const Budget budget = graph_.budget;  // set back below: element numbers do not count against the budget
    bool known = true;
    for (size_t i = 0; i < numbered.size(); ++i) {
      OperandPtr& x = numbered[i];
      if (!x || x->type != ElementType::kFloat32) continue;
      const auto nowhere = [&] {
        return make_constant("", ElementType::kInt64, x->dims,
                             std::vector<int64_t>(size_t(x->constant->elements()), -1));
      };
      const auto of = is_trainable(*x->constant) ? element_numbers(x) : std::make_shared<const Value>(nowhere());
      known = known && of;
      if (of) x = constant_of(of);
    }
    if (codes) places[0] = constant_of(element_numbers(source.inputs[0]));
    else if (known) places = outputs_with(import_, source, importer, std::move(numbered));
    graph_.budget = budget;
  }
  if (computes(roots, split_.computed) && !codes) {
    for (OperandPtr& x : by_steps) {
      if (!x || !is_trainable(*x->constant) || !computes(roots_of(x), split_.computed)) continue;
      const ValueId plain = import_.plain(x);
      // The operand has two uses, so that no later node is merged into the node that writes it.
      x = std::make_shared<Operand>(Operand{.name = x->name, .dims = x->dims, .plain = plain, .uses = 2});
    }
    steps = outputs_with(import_, source, importer, std::move(by_steps));
  }
  if (roots.size() > 1 && !places[0] && computes(roots, split_.computed)) {
    std::string names = roots[0]->name;
    for (size_t i = 1; i < roots.size(); ++i) names += (i + 1 < roots.size() ? ", " : " and ") + roots[i]->name;
    import_.log().note("is computed of " + names + ": if one of them is no parameter (a mask), the file does not tell");
  }
  for (size_t i = 0; i < made.size(); ++i) {
    if (!made[i]) continue;
    made[i]->roots = roots;
    if (places[i] && places[i]->constant) made[i]->places = places[i]->constant;
    if (steps[i] && !steps[i]->constant) made[i]->forms.push_back({{}, import_.plain(steps[i]), &source.proto});
    else if (!codes && computes(roots, split_.computed) && !computes(roots, split_.shared))
      import_.log().note("is computed of " + roots[0]->name +
                         ", and no step can: its numbers are trained in the place of what they are computed of");
  }
}

OperandPtr Parameters::computed(const OperandPtr& x, Value made) {
  made.fixed = made.fixed || x->constant->fixed;
  OperandPtr y = constant_operand(std::move(made));
  if (train_ && is_trainable(*x->constant)) y->roots = roots_of(x);
  number(y->roots);
  return y;
}

// Logs the constants that PyTorch computed at the export, which it names onnx::.., and the notes of torch_.
void Parameters::note_folded(const ::onnx::GraphProto& graph) {
  int folded = 0;
  std::string first;
  for (const ::onnx::TensorProto& tensor : graph.initializer()) {
    const bool real = tensor.data_type() == ::onnx::TensorProto::FLOAT && tensor.dims_size() > 0;
    if (!torch_.wrote || !real || !tensor.name().starts_with("onnx::")) continue;
    if (folded++ == 0) first = tensor.name();
  }
  if (folded > 0)
    graph_.log.push_back(
        "training: " + first + (folded > 1 ? " and " + std::to_string(folded - 1) + " more" : "") +
        ": PyTorch computed these at the export, each is trained as a parameter of its own. If a "
        "layer shares what it is computed of (tied embeddings), export with do_constant_folding=False");
  for (const std::string& line : torch_.notes) graph_.log.push_back("training: " + line);
}

SplitParameters Parameters::split() const {
  SplitParameters split = {.computed = repeated_, .shared = {}};
  std::vector<bool> taken(size_t(places_), false);
  const auto take = [&](const OperandPtr& by, int64_t place) {
    if (place < 0) return;
    if (taken[size_t(place)])
      for (const OperandPtr& root : roots_of(by)) split.shared.insert(root->name), split.computed.insert(root->name);
    taken[size_t(place)] = true;
  };
  const auto take_whole = [&](const OperandPtr& by, const OperandPtr& root) {
    for (int64_t i = 0; root->first_place >= 0 && i < root->constant->elements(); ++i) take(by, root->first_place + i);
  };
  for (const OperandPtr& x : read_) {
    if (x->places) {
      const std::vector<int64_t> places = integers(*x->places);
      for (const int64_t place : places) take(x, place);
      if (std::find(places.begin(), places.end(), -1) != places.end())  // some elements come from no parameter
        for (const OperandPtr& root : roots_of(x)) split.computed.insert(root->name);
      continue;
    }
    for (const OperandPtr& root : roots_of(x)) {
      if (!x->roots.empty()) split.computed.insert(root->name);
      take_whole(x, root);
    }
  }
  return split;
}

}  // namespace nacre::tools::onnx_import
