#include "tools/importers/onnx/torch.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_map>

#include "tools/base/error.h"
#include "tools/importers/onnx/fold.h"
#include "tools/importers/onnx/import.h"
#include "tools/importers/onnx/metadata.h"
#include "tools/importers/onnx/signature.h"
#include "tools/importers/onnx/tensor.h"
#include "tools/importers/onnx/torch_names.h"

namespace nacre::tools::onnx_import {
namespace {

constexpr const char* kExport = "export it with torch.onnx.export(.., optimize=False), which keeps each apart";

using Names = std::vector<std::string>;

bool holds(const Names& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// An input of a node that reads an initializer of reals, and the module's constant for which the initializer stands.
struct Read {
  Read(::onnx::NodeProto* reader, int i) : node(reader), input(i), initializer(reader->input(i)) {}

  ::onnx::NodeProto* node;
  int input;
  std::string initializer;
  enum Kind : uint8_t { kUnknown, kLiteral, kOwn, kNamed } kind = kUnknown;  // kOwn: the one that the initializer names
  std::string placeholder = "";                                              // for kNamed: the constant's placeholder
};

// A call of the module, and the nodes that it became.
struct Call {
  explicit Call(const std::string& of) : text(of), arguments(arguments_of_call(of)) {}

  std::string text, rules;
  Names arguments, results;
  std::vector<Read> reads;
  std::vector<::onnx::NodeProto*> nodes;
};

class Separation {
 public:
  Separation(::onnx::ModelProto& model, const std::string& name)
      : graph_(*model.mutable_graph()), name_(name), signature_(graph_) {}

  TorchConstants run() {
    if (signature_.empty()) return {};
    made_.facts = true;
    for (const auto& tensor : graph_.initializer()) {
      const int type = tensor.data_type();
      if (type == ::onnx::TensorProto::FLOAT || is_other_real(element_type(type)))
        initializers_.emplace(tensor.name(), &tensor);
      else whole_.insert(tensor.name());
    }
    for (const auto& value : graph_.input()) inputs_.insert(value.name());
    for (const auto& value : graph_.value_info())
      if (const Names from = folded_from(value); !from.empty()) folded_.emplace(value.name(), from);
    read_calls(*graph_.mutable_node());
    for (Call& call : calls_) resolve(call);
    refuse_lost();
    for (const Call& call : calls_) check_folded(call);
    for (Call& call : calls_) add_zero_bias(call);
    separate();
    join_forms();
    note_unread();
    return std::move(made_);
  }

 private:
  [[noreturn]] void refuse(const std::string& fact) const { throw Error(kUnsupported, name_, fact, kExport); }

  void read_calls(google::protobuf::RepeatedPtrField<::onnx::NodeProto>& nodes) {
    for (::onnx::NodeProto& node : nodes) {
      const std::string text = metadata_of(node, kNodeMetadata, "pkg.torch.onnx.fx_node");
      const auto [found, is_new] = by_text_.try_emplace(text, calls_.size());
      if (is_new) calls_.push_back(Call(text));
      Call& call = calls_[found->second];
      call.rules += metadata_of(node, kNodeMetadata, "pkg.onnxscript.rewriter.rule_name");
      call.nodes.push_back(&node);
      for (const std::string& output : node.output()) call.results.push_back(output), writer_[output] = found->second;
      const auto is_whole = [&](const std::string& input) { return whole_.contains(input); };
      if (node.op_type() == "Shape" || (node.input_size() > 0 && std::ranges::all_of(node.input(), is_whole)))
        whole_.insert(node.output().begin(), node.output().end());
      for (int i = 0; i < node.input_size(); ++i)
        if (initializers_.contains(node.input(i))) call.reads.push_back(Read(&node, i));
      for (::onnx::AttributeProto& attribute : *node.mutable_attribute())
        if (attribute.has_g()) read_calls(*attribute.mutable_g()->mutable_node());
    }
  }

  // Returns the module's constants that an initializer holds, by its own name or the names that it was folded from.
  Names own(const std::string& initializer) const {
    if (const std::string direct = signature_.of_target(initializer); !direct.empty()) return {direct};
    Names all;
    if (const auto found = folded_.find(initializer); found != folded_.end())
      for (const std::string& from : found->second)
        if (const std::string root = signature_.of_target(from); !root.empty()) all.push_back(root);
    return all;
  }

  // The call's arguments that name neither a constant of the module nor a value of the file. The count omits values
  // that the call reads under another name, because the exporter dropped a cast, a copy or a dropout between the two.
  struct Unexplained {
    int count = 0;
    Names names;
  };
  Unexplained unexplained(const Call& call) const {
    Names values;
    for (const ::onnx::NodeProto* node : call.nodes)
      for (const std::string& input : node->input())
        if (!input.empty() && !initializers_.contains(input) && !whole_.contains(input) &&
            !holds(call.results, input) && !holds(values, input))
          values.push_back(input);
    Unexplained all;
    for (const std::string& name : call.arguments)  // "sym_size_int" is a number of rows
      if (!signature_.has(name) && !holds(values, name) && !initializers_.contains(name) && !name.starts_with("sym_"))
        all.names.push_back(name);
    all.count = int(all.names.size());
    for (const std::string& value : values) all.count -= !holds(call.arguments, value);
    return all;
  }

  // Returns whether an initializer that no argument names may be the parameter whose numbers it holds. Else it is an
  // equal literal that the file stores with it. The names of the unexplained arguments decide, or the file is refused.
  bool may_be_own(const Call& call, const std::string& initializer) const {
    const Names roots = own(initializer);
    const Unexplained open = unexplained(call);
    if (open.count <= 0 || roots.empty()) return false;
    if (signature_.parameter_of(roots).empty()) return true;
    const int literals = int(std::count_if(open.names.begin(), open.names.end(), is_made_of_nothing));
    const bool alias = std::any_of(open.names.begin(), open.names.end(), may_be_alias);
    if (literals == int(open.names.size()) || (literals > 0 && literals >= open.count)) return false;
    const auto folded = folded_.find(initializer);
    const bool made_of_one = folded != folded_.end() && std::any_of(open.names.begin(), open.names.end(),
                                                                    [&](auto& n) { return holds(folded->second, n); });
    if (made_of_one || (alias && literals == 0)) return true;
    refuse(call.nodes[0]->name() + " reads " + initializer + " in the place of " + open.names[0] +
           ", which is not that parameter: their numbers are equal, and the file has them once");
  }

  void resolve(Call& call) {
    if (call.text.empty()) {  // no call: a rewriting dropped its name
      for (Read& read : call.reads) read.kind = own(read.initializer).empty() ? Read::kLiteral : Read::kOwn;
      return;
    }
    Names left;
    for (const std::string& argument : call.arguments)
      if (signature_.has(argument) && !holds(left, argument)) left.push_back(argument);
    mentioned_.insert(left.begin(), left.end());
    if (call.rules.find("FuseBatchNorm") != std::string::npos) return take_fused(call);
    for (Read& read : call.reads) {
      const Names roots = own(read.initializer);
      const auto named =
          std::find_if(roots.begin(), roots.end(), [&](const auto& root) { return holds(call.arguments, root); });
      if (named != roots.end()) read.kind = Read::kNamed, read.placeholder = *named;
      if (named == roots.end() && holds(call.arguments, read.initializer)) read.kind = Read::kOwn;
      for (const std::string& root : roots) std::erase(left, root);
    }
    std::vector<Read*> others, foreign;
    for (Read& read : call.reads)
      if (read.kind == Read::kUnknown) {
        others.push_back(&read);
        if (!own(read.initializer).empty()) foreign.push_back(&read);
      }
    const bool bias_is_gone = call.rules.find("RemoveOptionalBias") != std::string::npos && !left.empty();
    const size_t wanted = left.size() - (bias_is_gone ? 1 : 0);
    std::vector<Read*>& taken = foreign.size() == wanted ? foreign : others;
    if (taken.size() != wanted && wanted > 0 && !taken.empty())
      refuse("of " + call.nodes[0]->name() + " it does not say which of its constants is " +
             signature_.target(left[0]));
    for (size_t i = 0; i < std::min(wanted, taken.size()); ++i)
      taken[i]->kind = Read::kNamed, taken[i]->placeholder = left[i];
    for (Read* read : others) {
      if (read->kind != Read::kUnknown) continue;
      const bool is_own = may_be_own(call, read->initializer);
      read->kind = is_own ? Read::kOwn : Read::kLiteral;
      if (is_own) uncertain_.push_back({&call, read->initializer});
    }
  }

  // Takes the constants of a call whose numbers include a batch norm since the export. They are trained as they stand.
  void take_fused(Call& call) {
    for (Read& read : call.reads) read.kind = own(read.initializer).empty() ? Read::kLiteral : Read::kOwn;
    made_.notes.push_back(
        call.nodes[0]->name() +
        " has a batch norm in its weights since the export: the sum is trained, not the layer and the "
        "norm. To train both, export with optimize=False");
  }

  // Returns the parameters that no call of the file has as an argument and that no other initializer is made of.
  Names unmentioned() const {
    Names all;
    for (const std::string& placeholder : signature_.parameters()) {
      const bool held = std::any_of(initializers_.begin(), initializers_.end(), [&](const auto& entry) {
        return entry.first != signature_.target(placeholder) && holds(own(entry.first), placeholder);
      });
      if (!held && !mentioned_.contains(placeholder)) all.push_back(placeholder);
    }
    return all;
  }

  // Refuses a file that may lack a parameter: the exporter keeps one of two norms with equal numbers over one input.
  void refuse_lost() const {
    const Names lost = unmentioned();
    if (lost.empty()) return;
    const std::string& one = signature_.target(lost[0]);
    for (const auto& [call, initializer] : uncertain_)
      if (readers_of(initializer) > 1)
        refuse(call->nodes[0]->name() + " reads " + initializer + ", which may stand for another parameter, such as " +
               one);
    for (const Call& call : calls_)
      for (const std::string& argument : call.arguments)
        for (const ::onnx::NodeProto* node : call.nodes)
          for (const std::string& input : node->input())
            if (argument != input && !writer_.contains(argument) && !signature_.has(argument) &&
                without_count(argument) == without_count(input) && reads_parameters(input))
              refuse(call.nodes[0]->name() + " reads " + input + " in the place of " + argument +
                     ", whose parameters the file lacks, such as " + one);
  }
  int readers_of(const std::string& initializer) const {
    int count = 0;
    for (const Call& call : calls_)
      for (const Read& read : call.reads) count += read.initializer == initializer;
    return count;
  }
  bool reads_parameters(const std::string& value) const {
    const auto found = writer_.find(value);
    if (found == writer_.end()) return false;
    const Names& arguments = calls_[found->second].arguments;
    return std::any_of(arguments.begin(), arguments.end(), [&](const auto& a) { return signature_.is_parameter(a); });
  }

  // Adds a bias of zeros, which trains, to a call whose bias the exporter left out (RemoveOptionalBias).
  void add_zero_bias(Call& call) {
    if (call.rules.find("RemoveOptionalBias") == std::string::npos || call.nodes.size() != 1) return;
    ::onnx::NodeProto& node = *call.nodes[0];
    std::string bias;
    for (const std::string& argument : call.arguments)
      if (signature_.is_parameter(argument)) bias = argument;
    const auto weights = node.input_size() == 2 ? initializers_.find(node.input(1)) : initializers_.end();
    const bool read =
        std::any_of(call.reads.begin(), call.reads.end(), [&](const Read& r) { return r.placeholder == bias; });
    if (bias.empty() || read || weights == initializers_.end() || weights->second->dims_size() < 2) return;
    int64_t group = 1;
    bool transposed = node.op_type() == "Conv";
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() == "transB") transposed = attribute.i() != 0;
      if (attribute.name() == "group") group = attribute.i();
    }
    const int64_t size = transposed ? weights->second->dims(0) : weights->second->dims(1) * group;
    if (size < 1 || size > 1 << 24 || initializers_.contains(signature_.target(bias))) return;
    ::onnx::TensorProto& zeros = *graph_.add_initializer();
    zeros.set_name(signature_.target(bias));
    zeros.set_data_type(::onnx::TensorProto::FLOAT);
    zeros.add_dims(size);
    zeros.set_raw_data(std::string(size_t(size) * sizeof(float), '\0'));
    node.add_input(zeros.name());
    holder_[bias] = {zeros.name()};
  }

  // Gives each constant of the module, and the literals, an initializer apart from each other.
  void separate() {
    std::map<std::string, std::vector<Read*>> readers;
    for (Call& call : calls_)
      for (Read& read : call.reads) readers[read.initializer].push_back(&read);
    for (auto& [initializer, reads] : readers) {
      const std::string kept = keeps_name(initializer, reads);
      for (Read* read : reads) {
        const std::string key = key_of(*read);
        const std::string name = key == kept ? initializer : copy_for(initializer, key);
        read->node->set_input(read->input, name);
        if (key == "literal" || (read->kind == Read::kNamed && !signature_.is_parameter(read->placeholder)))
          made_.fixed.insert(name);
        if (read->kind == Read::kNamed && !holds(holder_[read->placeholder], name))
          holder_[read->placeholder].push_back(name);
        if (read->kind == Read::kOwn) hold_own(initializer, name);
      }
    }
  }
  static std::string key_of(const Read& read) {
    return read.kind == Read::kNamed ? "of " + read.placeholder : read.kind == Read::kOwn ? "own" : "literal";
  }

  // Returns the key of the reads that keep the initializer's name: its own constant's, else a literal's, or the first.
  std::string keeps_name(const std::string& initializer, const std::vector<Read*>& reads) const {
    for (const Read* read : reads)
      if (read->kind == Read::kOwn) return "own";
    const Names roots = own(initializer);
    for (const Read* read : reads)
      if (read->kind == Read::kNamed && holds(roots, read->placeholder)) return key_of(*read);
    for (const Read* read : reads)
      if (read->kind == Read::kLiteral) return "literal";
    return signature_.of_target(initializer).empty() ? key_of(*reads[0]) : "";
  }

  std::string copy_for(const std::string& initializer, const std::string& key) {
    std::string& name = copies_[{initializer, key}];
    if (!name.empty()) return name;
    const bool literal = key == "literal";
    name = literal ? initializer + "/literal" : signature_.target(key.substr(3));
    while (initializers_.contains(name) || writer_.contains(name)) name += "/form";
    ::onnx::TensorProto copy = *initializers_.at(initializer);
    copy.set_name(name);
    *graph_.add_initializer() = std::move(copy);
    return name;
  }

  // Refuses a constant that the exporter computed from parameters, because it is no parameter. A constant that holds
  // one parameter's elements in another order is allowed: the names that it was folded from must be moves, values of
  // the file or constants of the module. Weights that include a batch norm are trained as they stand.
  void check_folded(const Call& call) const {
    const bool fused = call.rules.find("FuseBatchNorm") != std::string::npos;
    for (const Read& read : call.reads) {
      const auto folded = folded_.find(read.initializer);
      if (folded == folded_.end() || !signature_.of_target(read.initializer).empty()) continue;
      const Names roots = own(read.initializer);
      if (read.kind == Read::kLiteral || signature_.parameter_of(roots).empty()) continue;
      if (read.kind == Read::kNamed && (is_recurrent(call.text) || !signature_.is_parameter(read.placeholder)))
        continue;
      const bool in_call = without_count(read.initializer) == "val";
      const bool shown = std::all_of(folded->second.begin(), folded->second.end(), [&](const std::string& name) {
        return moves_only(name) || whole_.contains(name) || writer_.contains(name) || inputs_.contains(name) ||
               !signature_.of_target(name).empty();
      });
      const bool moved = shown && roots.size() == 1 && !(in_call && steps_may_compute(call.text, read.node->op_type()));
      if (!moves_only(read.initializer) || !(moved || fused))
        refuse(read.initializer + " was computed of " + signature_.target(signature_.parameter_of(roots)) +
               " at the export: it is no parameter");
    }
  }
  void hold_own(const std::string& initializer, const std::string& name) {
    const Names roots = own(initializer);
    if (signature_.parameter_of(roots).empty()) made_.fixed.insert(name);
    else if (roots.size() == 1 && !holds(holder_[roots[0]], name)) holder_[roots[0]].push_back(name);
  }

  Value value_of(const std::string& initializer) const {
    const std::string directory = std::filesystem::path(name_).parent_path().string();
    for (const auto& tensor : graph_.initializer())
      if (tensor.name() == initializer) return read_tensor(tensor, directory.empty() ? "." : directory);
    refuse("has no initializer " + initializer);
  }

  // Joins the initializers that hold one parameter. A Transpose or Reshape computes the others from the first.
  void join_forms() {
    for (auto& [placeholder, names] : holder_) {
      if (names.size() < 2 || !signature_.is_parameter(placeholder)) continue;
      const auto direct = std::find(names.begin(), names.end(), signature_.target(placeholder));
      if (direct != names.end()) std::iter_swap(names.begin(), direct);
      for (size_t i = 1; i < names.size(); ++i) join(names[0], names[i], signature_.target(placeholder));
    }
  }
  void join(const std::string& whole, const std::string& form, const std::string& target) {
    const Value from = value_of(whole), to = value_of(form);
    ::onnx::NodeProto& node = *graph_.add_node();
    node.set_name(form + "/form");
    node.add_input(whole);
    node.add_output(form);
    const bool turned = from.dims.size() == 2 && to.dims == std::vector<int64_t>{from.dims[1], from.dims[0]};
    if (turned && *permuted(from, {1, 0}).data == *to.data) {
      node.set_op_type("Transpose");
      set_attribute(node, "perm", std::vector<int64_t>{1, 0});
    } else if (*from.data == *to.data) {
      ::onnx::TensorProto& dims = *graph_.add_initializer();
      dims.set_name(form + "/dims");
      dims.set_data_type(::onnx::TensorProto::INT64);
      dims.add_dims(int64_t(to.dims.size()));
      for (const int64_t dim : to.dims) dims.add_int64_data(dim);
      node.set_op_type("Reshape");
      node.add_input(dims.name());
    } else {
      refuse(form + " was computed of " + target +
             " at the export, which is read as it is, too: training could not keep "
             "them equal");
    }
    auto& all = *graph_.mutable_initializer();
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& tensor) { return tensor.name() == form; });
    all.erase(found);
  }

  void note_unread() {
    std::string names;
    for (const std::string& placeholder : unmentioned())
      if (!holder_.contains(placeholder)) names += (names.empty() ? "" : ", ") + signature_.target(placeholder);
    if (!names.empty())
      made_.notes.push_back("nothing in the file reads these parameters of the module: " + names +
                            ". They are unused, or one with another, or the exporter left them out");
  }

  ::onnx::GraphProto& graph_;
  const std::string& name_;
  const Signature signature_;
  std::unordered_map<std::string, const ::onnx::TensorProto*> initializers_;  // tensors of reals
  std::set<std::string> whole_, inputs_;  // names: whole_ of tensors of integers and shapes, inputs_ of graph inputs
  std::unordered_map<std::string, Names> folded_;
  std::vector<Call> calls_;
  std::unordered_map<std::string, size_t> by_text_, writer_;
  std::set<std::string> mentioned_;
  std::vector<std::pair<const Call*, std::string>> uncertain_;  // a call and an initializer
  std::map<std::string, Names> holder_;                         // placeholder to the initializers that hold it
  std::map<std::pair<std::string, std::string>, std::string> copies_;
  TorchConstants made_;
};

}  // namespace

TorchConstants separate_torch_constants(::onnx::ModelProto& model, const std::string& name) {
  return Separation(model, name).run();
}

}  // namespace nacre::tools::onnx_import
