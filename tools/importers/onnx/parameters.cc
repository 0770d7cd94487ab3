// Decides which constants of a graph that is to be trained are one parameter.
//
// Layers may read an initializer in several orders or shapes, its forms. An example is a table [entries, width] that
// one layer reads unchanged and the output layer reads transposed. The first form that a node asks for becomes the
// constant. An equal form is this value. Another form is computed from the constant by transposes and reshapes,
// through which gradients flow back. Some forms cannot be made so (the gates of a recurrence in another order). They
// become separate parameters, which is allowed only within one node.
#include <re2/re2.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"

namespace nacre::tools::onnx_import {
namespace {

std::string dump_constant(const Value& v) {
  std::string text = std::to_string(int(v.stored));
  for (const int64_t dim : v.dims) text += " " + std::to_string(dim);
  return text + ":" + std::string(v.data->begin(), v.data->end());
}

std::vector<int64_t> after(const std::vector<int64_t>& dims, const Move& move) {
  if (move.kind == Move::kReshape) return move.to;
  if (move.kind == Move::kOther) return dims;
  std::vector<int64_t> moved;
  for (const int64_t axis : move.to) moved.push_back(dims[size_t(axis)]);
  return moved;
}

Moves joined(Moves first, const Moves& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

// Merges neighbouring transposes, and neighbouring reshapes. Drops transposes and reshapes that do nothing.
Moves normalized(std::vector<int64_t> dims, const Moves& moves) {
  Moves all;
  std::vector<std::vector<int64_t>> before;  // the dims before each move of `all`
  for (const Move& move : moves) {
    if (!all.empty() && move.kind != Move::kOther && all.back().kind == move.kind) {
      Move& last = all.back();
      last.to = move.kind == Move::kReshape ? move.to : after(last.to, move);  // x.to[perm[i]]
    } else {
      all.push_back(move);
      before.push_back(dims);
    }
    dims = after(before.back(), all.back());
    const Move& last = all.back();
    const bool in_order = last.kind == Move::kTranspose && std::is_sorted(last.to.begin(), last.to.end());
    if (in_order || (last.kind == Move::kReshape && last.to == before.back())) all.pop_back(), before.pop_back();
  }
  return all;
}

Moves inverse(std::vector<int64_t> dims, const Moves& moves) {
  Moves back;
  for (const Move& move : moves) {
    Move undone = Move::reshape(dims);
    if (move.kind == Move::kTranspose) {
      undone = move;
      for (size_t i = 0; i < move.to.size(); ++i) undone.to[size_t(move.to[i])] = int64_t(i);
    }
    back.insert(back.begin(), undone);
    dims = after(dims, move);
  }
  return back;
}

bool steps_make(const Moves& moves) {
  return std::none_of(moves.begin(), moves.end(), [](const Move& move) { return move.kind == Move::kOther; });
}

std::vector<int64_t> dims_of(const std::vector<int64_t>& origin, const Moves& moves) {
  return std::accumulate(moves.begin(), moves.end(), origin, after);
}

ValueId rearranged(Import& import, const Operand::Form& from, const Moves& to, const Operand& origin,
                   const std::string& name) {
  const Moves back = inverse(origin.dims, from.moves);
  ValueId x = from.value;
  for (const Move& move : normalized(dims_of(origin.dims, from.moves), joined(back, to))) {
    if (move.kind == Move::kTranspose) x = import.transposed(x, {move.to.begin(), move.to.end()}, name + "/transposed");
    else x = import.reshaped(x, move.to, name + "/reshaped");
  }
  return x;
}

}  // namespace

Parameters::Parameters(Import& import, const TorchConstants& torch, SplitParameters split)
    : import_(import), graph_(import.graph()), torch_(torch), split_(std::move(split)), train_(import.options().train) {
}

// Returns whether training may change the constant. Integers are shapes and indices. A constant of one number is a
// factor of the arithmetic, with two exceptions: slopes of PRelu, and files of PyTorch, which store factors as
// literals.
bool Parameters::is_trainable(const Value& v) const {
  const Source* const source = import_.current().source;
  const bool one_counts = torch_.wrote || (source != nullptr && source->proto.op_type() == "PRelu");
  return !v.fixed && v.elements() > (one_counts ? 0 : 1) && (v.stored == ElementType::kFloat32 || v.quantizer);
}

// Returns whether the constant is a number of the file's arithmetic: torch_ lists it as fixed, or it is one number in a
// file of PyTorch whose name shows that the exporter made it.
bool Parameters::is_literal(const std::string& name, const Value& constant) const {
  if (torch_.fixed.contains(name)) return true;
  if (!torch_.wrote || constant.elements() != 1) return false;
  static const RE2 kNamedByExporter(
      "(val_\\d+|(_to_copy|scalar_tensor_default|lifted_tensor|_tensor_constant)(_?\\d+)?)");
  return (constant.dims.empty() && name.starts_with("onnx::")) ||
         (!torch_.facts && RE2::FullMatch(name, kNamedByExporter));
}

// Returns whether the current operator trains the constant. It does so for slopes of PRelu, and for parameters of
// PyTorch's newer exporter. Files of its older exporter do not tell buffers from parameters. There, operands of Sub
// and Div are taken for means and deviations of data. Constants with two or more axes longer than 1 are taken for
// tables, such as the cosines of rotary embeddings. Other constants are taken for gains, tokens and temperatures.
bool Parameters::is_variable(const Value& v) const {
  if (!train_ || !is_trainable(v)) return false;
  const std::string& op = import_.current().source->proto.op_type();
  if (op == "PRelu" || !torch_.wrote || torch_.facts) return op == "PRelu" || torch_.wrote;
  return op != "Sub" && op != "Div" && std::ranges::count_if(v.dims, [](int64_t d) { return d > 1; }) <= 1;
}

ValueId Parameters::parameter(const OperandPtr& x, const Moves& moves, Value made) {
  const OperandPtr& origin = x->origin ? x->origin : x;
  made.fixed = made.fixed || origin->constant->fixed;
  if (!train_ || (!is_trainable(made) && origin->roots.empty())) return graph_.add(std::move(made));
  const Moves all = normalized(origin->dims, joined(x->moves, moves));
  if (steps_make(all)) made.name = origin->name;
  const Source& source = *import_.current().source;
  const ::onnx::NodeProto* node = &source.proto;
  const Operand::Form* from = nullptr;
  // whether another node reads the origin, or reads an initializer that the origin is computed from
  bool elsewhere = computes(origin->roots, split_.shared);
  for (const Operand::Form& form : origin->forms) {
    if (form.moves == all) {
      if (form.node != node) note_equal(*origin);
      return form.value;
    }
    if (from == nullptr && steps_make(form.moves) && steps_make(all)) from = &form;
    elsewhere = elsewhere || (origin->roots.empty() && form.node != node);
  }
  if (from == nullptr && elsewhere)
    source.refuse(
        origin->name +
            (origin->roots.empty() ? " is read by another layer too, in a form that no step can make of this one's: "
                                   : " is computed of " + origin->roots[0]->name +
                                         ", which is read elsewhere too, and no step can compute it: ") +
            "training could not keep them equal",
        "give each layer weights of its own");
  if (origin->forms.empty()) read_.push_back(origin);
  // A parameter of one number is repeated for its reader. A node of the graph repeats it, so its gradient is the sum.
  const bool one = is_trainable(made) && made.elements() == 1;
  made.variable = is_variable(made);
  made.keeps_steps = made.keeps_steps || one || (origin->roots.empty() && split_.computed.contains(origin->name));
  const ValueId id =
      from != nullptr ? rearranged(import_, *from, all, *origin, made.name) : graph_.add(std::move(made));
  origin->forms.push_back({all, id, node});
  return id;
}

// Tells the user that two layers read x, if all elements of x are equal. Exporters store equal tensors once, and an
// Identity or nothing stands for each tensor that was merged. Trained parameters hardly ever hold one number
// everywhere, so only an x of one number is suspected to be a merged tensor.
void Parameters::note_equal(const Operand& x) {
  if (x.constant->elements() < 2 || x.constant->quantizer || noted_.contains(x.name)) return;
  const std::vector<float> numbers = reals(*x.constant);
  if (std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) != numbers.end()) return;
  noted_.insert(x.name);
  import_.log().note(
      "reads " + x.name +
      " as another layer does, and it holds one number everywhere: it is trained as one parameter. If the exporter "
      "merged tensors that were only equal, train the network once before the export, or export it in training mode");
}

OperandPtr Parameters::moved(const OperandPtr& x, const Move& move, Value made) const {
  auto y = std::make_shared<Operand>();
  y->type = made.type;
  y->kept = x->kept;
  y->dims = made.dims;
  y->origin = x->origin ? x->origin : x;
  y->moves = joined(x->moves, {move});
  if (x->exact && move.kind == Move::kReshape) y->exact = std::make_shared<const Value>(reshaped(*x->exact, move.to));
  if (x->exact && move.kind == Move::kTranspose)
    y->exact = std::make_shared<const Value>(permuted(*x->exact, {move.to.begin(), move.to.end()}));
  y->constant = std::make_shared<const Value>(std::move(made));
  return y;
}

// Marks the constants of a node that reads constants alone, so that no pass folds it and trains its result instead.
void Parameters::keep_steps_of_constants(const Node& node) {
  const auto constant_of = [&](ValueId id) {
    if (id == kNone || import_.value(id).constant()) return id;
    const auto found = moved_from_.find(id);
    return found != moved_from_.end() ? found->second : kNone;
  };
  for (const ValueId id : node.inputs)
    if (id != kNone && constant_of(id) == kNone) return;
  if (node.op == Op::kTranspose || node.op == Op::kReshape) {
    moved_from_.emplace(node.outputs[0], constant_of(node.inputs[0]));
    return;
  }
  for (const ValueId id : node.inputs)
    if (id != kNone && is_trainable(import_.value(constant_of(id)))) import_.value(constant_of(id)).keeps_steps = true;
}

std::string Parameters::key_of_computed(const Source& source) const {
  std::string key = source.proto.op_type() + " " + source.proto.domain() + " " + std::to_string(source.opset);
  bool trainable = false;
  for (const ::onnx::AttributeProto& attribute : source.proto.attribute()) {
    if (!attribute.ref_attr_name().empty()) return "";
    key += "\n" + attribute.SerializeAsString();
  }
  for (size_t i = 0; i < source.inputs.size(); ++i) {
    const OperandPtr& input = source.inputs[i];
    if (input && !input->constant) return "";
    const bool codes = i == 0 && source.proto.op_type() == "DequantizeLinear";
    const bool trains = input && (is_trainable(*input->constant) || codes);
    trainable = trainable || trains;
    key += "\n";
    if (trains) key += std::to_string(reinterpret_cast<uintptr_t>(input.get()));
    else if (input) key += dump_constant(*input->constant);
  }
  return trainable && source.proto.op_type() != "Identity" ? key : "";
}

// Gives the outputs of an earlier node with this key, and returns whether there was one. For example, a recurrence that
// is applied twice cuts and joins its gates twice, from one initializer.
bool Parameters::reuse_computed(const std::string& key) {
  const auto found = computed_.find(key);
  if (key.empty() || found == computed_.end()) return false;
  const Source& source = *import_.current().source;
  const std::vector<OperandPtr>& outputs = found->second.outputs;
  for (int i = 0; i < source.proto.output_size(); ++i)
    if (source.wants(i) && (size_t(i) >= outputs.size() || !outputs[size_t(i)])) return false;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]) import_.give(int(i), outputs[i]);
  return true;
}

void Parameters::keep_computed(Scope& scope, const Source& source, const std::string& key) {
  if (key.empty()) return;
  Computed computed = {source.inputs, {}};
  for (int i = 0; i < source.proto.output_size(); ++i) {
    const OperandPtr made = source.wants(i) ? import_.find(scope, source.proto.output(i)) : nullptr;
    if (made && !made->constant) return;
    computed.outputs.push_back(made);
  }
  computed_.emplace(key, std::move(computed));
}

OperandPtr Parameters::under_new_name(const OperandPtr& x) {
  if (!train_ || !x->constant || !is_trainable(*x->constant)) return x;
  const std::string& name = import_.output_name();
  // A clone that the module computes is no parameter of its own. PyTorch starts the clone's name with "/", or names its
  // node. Nodes that stand for merged equal tensors have no name, or one that starts with Identity_.
  const std::string& node = import_.current().source->proto.name();
  const bool merged = node.empty() || node.starts_with("Identity_");
  if (name.starts_with("/") || (torch_.wrote && !merged)) return x;
  if (name.starts_with("onnx::"))
    import_.log().note(
        "has the numbers of " + x->name +
        " and is trained apart from it: PyTorch writes a matrix so that two layers have, and one that a layer "
        "applied twice has. If it is one, export with do_constant_folding=False");
  return std::make_shared<Operand>(Operand{.type = x->type, .kept = x->kept, .dims = x->dims, .constant = x->constant});
}

}  // namespace nacre::tools::onnx_import
