#include "tools/importers/onnx/torch_gradients.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "tools/base/error.h"
#include "tools/importers/onnx/metadata.h"
#include "tools/importers/onnx/signature.h"
#include "tools/importers/onnx/tensor.h"
#include "tools/importers/shared/ignored_settings.h"

namespace nacre::tools::onnx_import {
namespace {

// The arguments of a call of aten.embedding that follow the weights and the ids.
struct Lookup {
  int64_t padding = -1;  // the row without a gradient, or -1 if there is none
  bool by_frequency = false;
};

Lookup lookup_of(const ::onnx::NodeProto& node) {
  if (node.op_type() != "Gather" || node.input_size() != 2 || node.output_size() != 1) return {};
  const std::string call = metadata_of(node, kNodeMetadata, "pkg.torch.onnx.fx_node");
  static const RE2 kCall(R"(aten\.embedding\.default\]\(args = \(%\w+, %\w+(?:, (-?\d{1,18}))?(?:, (True|False))?)");
  std::string padding, by_frequency;
  Lookup lookup;
  if (!RE2::PartialMatch(call, kCall, &padding, &by_frequency)) return lookup;
  if (!padding.empty()) lookup.padding = std::stoll(padding);
  lookup.by_frequency = by_frequency == "True";
  return lookup;
}

class Gradients {
 public:
  Gradients(::onnx::ModelProto& model, const std::string& name, const ImportOptions& options)
      : graph_(*model.mutable_graph()), name_(name), options_(options), signature_(graph_) {
    for (const auto& tensor : graph_.initializer()) {
      initializers_.emplace(tensor.name(), &tensor);
      add_roots(tensor.name(), tensor.name());
    }
    for (const auto& value : graph_.value_info())
      for (const std::string& from : folded_from(value)) add_roots(value.name(), from);
  }

  std::vector<std::string> run() {
    if (signature_.empty()) return notes();
    Nodes nodes;
    nodes.Swap(graph_.mutable_node());
    for (const ::onnx::NodeProto& node : nodes)
      for (const std::string& input : node.input())
        if (const auto roots = roots_.find(input); roots != roots_.end())
          for (const std::string& root : roots->second) paddings_[root].insert(lookup_of(node).padding);
    for (::onnx::NodeProto& node : nodes) {
      refuse_detached(node, call_of(node));
      const Lookup lookup = lookup_of(node);
      if (lookup.by_frequency)
        refuse("Embedding.scale_grad_by_freq", node.name() + " divides its gradient by how often a row is read");
      const bool kept = keeps_row(node, lookup.padding);
      if (lookup.padding >= 0 && !kept)
        refuse("Embedding.padding_idx",
               fmt::format("{} has no gradient of row {} of {}, which {}", node.name(), lookup.padding, node.input(0),
                           matrix(node.input(0)) ? "other steps read too" : "is computed"));
      if (kept) add_row(std::move(node), lookup.padding);
      else *graph_.add_node() = std::move(node);
    }
    return {};
  }

 private:
  using Nodes = google::protobuf::RepeatedPtrField<::onnx::NodeProto>;

  static std::string call_of(const ::onnx::NodeProto& node) {
    return metadata_of(node, kNodeMetadata, "pkg.torch.onnx.fx_node");
  }

  // Returns notes for a file without calls, on matrices with a row of zeros. PyTorch sets a row of padding to zeros.
  std::vector<std::string> notes() const {
    std::vector<std::string> all;
    for (const ::onnx::NodeProto& node : graph_.node()) {
      if (node.op_type() != "Gather") continue;
      if (const int64_t row = zero_row(node); row >= 0)
        all.push_back(
            fmt::format("row {} of {} holds zeros: if it is a padding_idx, PyTorch does not train it, which this "
                        "file does not tell. Export with dynamo=True, which does",
                        row, node.input(0)));
    }
    return all;
  }

  void refuse(const std::string& setting, const std::string& fact) const {
    if (!goes_on_without(options_, setting))
      throw Error(kUnsupported, name_, fact + ", which has no form here where it is to be trained",
                  how_to_ignore(setting));
  }

  // Notes the parameter `target`, by the name that calls use, as one that `initializer` is or is computed from.
  void add_roots(const std::string& initializer, const std::string& target) {
    const std::string placeholder = signature_.of_target(target);
    if (!placeholder.empty() && signature_.is_parameter(placeholder)) roots_[initializer].push_back(placeholder);
  }

  // Refuses a detached value. The exporter drops the call of detach. The reader then reads the value before detach,
  // while its call still names the detached one.
  void refuse_detached(const ::onnx::NodeProto& node, const std::string& call) {
    static const RE2 kDetached(R"(detach(_\d+)?)");
    const std::vector<std::string> arguments = arguments_of_call(call);
    const auto is_argument = [&](const std::string& x) { return std::ranges::find(arguments, x) != arguments.end(); };
    const bool detaches = call.find("aten.detach.") != call.npos;
    const bool reads_detached = std::ranges::any_of(arguments, [](auto& a) { return RE2::FullMatch(a, kDetached); });
    bool depends = false;
    for (const std::string& input : node.input()) {
      const auto roots = roots_.find(input);
      const auto made = made_of_.find(input);
      if (roots == roots_.end() && made == made_of_.end()) continue;
      depends = true;
      const bool named = roots != roots_.end() ? std::ranges::any_of(roots->second, is_argument)
                                               : is_argument(input) || made->second == call;
      if (detaches || (reads_detached && !named))
        refuse("detach", fmt::format("{} reads {} detached, without a gradient", node.name(), input));
    }
    if (!depends) return;
    for (const std::string& output : node.output()) made_of_.emplace(output, call);
  }

  // Returns the initializer `name` if it is a matrix of float32, else nullopt.
  std::optional<Value> matrix(const std::string& name) const {
    const auto found = initializers_.find(name);
    if (found == initializers_.end() || found->second->data_type() != ::onnx::TensorProto::FLOAT ||
        found->second->dims_size() != 2)
      return std::nullopt;
    return read_tensor(*found->second, std::filesystem::path(name_).parent_path().string());
  }

  // Returns the first row of zeros in the matrix whose rows the node reads, or -1 if there is none.
  int64_t zero_row(const ::onnx::NodeProto& node) const {
    const std::optional<Value> w = node.input_size() == 2 ? matrix(node.input(0)) : std::nullopt;
    if (!w || w->dims[0] < 2) return -1;
    const std::vector<float> numbers = reals(*w);
    for (int64_t row = 0; row < w->dims[0]; ++row) {
      const auto first = numbers.begin() + row * w->dims[1];
      if (std::all_of(first, first + w->dims[1], [](float x) { return x == 0; })) return row;
    }
    return -1;
  }

  // Returns whether the row without a gradient never changes. This holds if all nodes that read the parameter are
  // lookups with this padding.
  bool keeps_row(const ::onnx::NodeProto& node, int64_t row) const {
    const auto roots = row >= 0 ? roots_.find(node.input(0)) : roots_.end();
    const std::optional<Value> w = roots != roots_.end() ? matrix(node.input(0)) : std::nullopt;
    return w && row < w->dims[0] && w->dims[1] > 0 &&
           std::ranges::all_of(roots->second, [&](const auto& root) { return paddings_.at(root).size() == 1; });
  }

  ::onnx::NodeProto& add(const ::onnx::NodeProto& near, const char* op, const std::vector<std::string>& inputs,
                         const std::string& output) {
    ::onnx::NodeProto& node = *graph_.add_node();
    node = near;  // this copies the metadata of its call
    node.clear_attribute();
    node.clear_input();
    node.clear_output();
    node.set_op_type(op);
    node.set_name(near.name() + "/" + op);
    for (const std::string& input : inputs) node.add_input(input);
    node.add_output(output);
    return node;
  }

  template <class T>
  void add_constant(const ::onnx::NodeProto& near, const std::string& output, int type, const T* first, int64_t count) {
    ::onnx::AttributeProto& value = *add(near, "Constant", {}, output).add_attribute();
    value.set_name("value");
    value.set_type(::onnx::AttributeProto::TENSOR);
    value.mutable_t()->add_dims(count);
    value.mutable_t()->set_data_type(type);
    value.mutable_t()->set_raw_data(first, size_t(count) * sizeof(T));
  }

  // Adds y = where(ids == row, c, w[ids]), with c the numbers of w[row].
  void add_row(::onnx::NodeProto gather, int64_t row) {
    const std::string y = gather.output(0), ids = gather.input(1), at = y + "/padding";
    const Value w = *matrix(gather.input(0));
    const std::vector<float> numbers = reals(w);
    const int64_t last = -1;
    gather.set_output(0, y + "/rows");
    *graph_.add_node() = gather;
    add(gather, "Cast", {ids}, at + "/ids")
        .add_attribute()
        ->CopyFrom(integer_attribute("to", ::onnx::TensorProto::INT64));
    add_constant(gather, at + "/row", ::onnx::TensorProto::INT64, &row, 1);
    add(gather, "Equal", {at + "/ids", at + "/row"}, at + "/equal");
    add_constant(gather, at + "/axis", ::onnx::TensorProto::INT64, &last, 1);
    add(gather, "Unsqueeze", {at + "/equal", at + "/axis"}, at + "/hidden");
    add_constant(gather, at + "/numbers", ::onnx::TensorProto::FLOAT, &numbers[size_t(row * w.dims[1])], w.dims[1]);
    add(gather, "Where", {at + "/hidden", at + "/numbers", gather.output(0)}, y);
  }

  static ::onnx::AttributeProto integer_attribute(const char* name, int64_t value) {
    ::onnx::AttributeProto attribute;
    attribute.set_name(name);
    attribute.set_type(::onnx::AttributeProto::INT);
    attribute.set_i(value);
    return attribute;
  }

  ::onnx::GraphProto& graph_;
  const std::string& name_;
  const ImportOptions& options_;
  const Signature signature_;
  std::map<std::string, const ::onnx::TensorProto*> initializers_;
  std::map<std::string, std::vector<std::string>> roots_;  // initializer to parameters
  std::map<std::string, std::set<int64_t>> paddings_;      // parameter to paddings of nodes that read it, or -1
  std::map<std::string, std::string> made_of_;             // values that depend on parameters, to their calls
};

}  // namespace

std::vector<std::string> keep_gradients(::onnx::ModelProto& model, const std::string& name,
                                        const ImportOptions& options) {
  return Gradients(model, name, options).run();
}

}  // namespace nacre::tools::onnx_import
