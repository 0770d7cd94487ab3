// Imports an ONNX file: its inputs and outputs, and its nodes one by one.
//
// Each operator's own function handles its versions. Nodes that no output depends on are not imported. If a node is
// not supported, a refusal is noted and its outputs may be unknown (unknown.cc). For nodes that read unknown values
// the import only checks that the operator is known.
#include "tools/importers/onnx/file.h"

#include <algorithm>
#include <climits>
#include <filesystem>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_set>

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include "tools/base/option_id.h"
#include "tools/base/unsupported.h"
#include "tools/graph/batch.h"
#include "tools/importers/onnx/evaluator.h"
#include "tools/importers/onnx/tensor.h"
#include "tools/importers/onnx/torch_gradients.h"
#include "tools/model/model_limits.h"

namespace nacre::tools::onnx_import {
namespace {

constexpr int kOldestOpset = 1, kNewestOpset = 28;  // 28 is that of ONNX v1.23.2, whose definitions were read
constexpr int kMaxIrVersion = 14;
constexpr int kMaxNesting = 64;    // depth of messages; a graph inside an attribute adds three
constexpr int kMaxCallDepth = 16;  // depth of functions

// The first opset whose form of an operator the importer reads. Older forms are refused. The list does not refuse any
// opset of the other operators.
struct FirstForm {
  const char* op;
  int opset;
};
constexpr FirstForm kFirstForms[] = {{"Cast", 6}, {"Concat", 4}, {"GRU", 3},     {"GlobalLpPool", 2}, {"LpPool", 2},
                                     {"Pad", 2},  {"Split", 2},  {"Reshape", 5}, {"Tile", 6},         {"Upsample", 7}};

bool is_main_domain(const std::string& domain) { return domain.empty() || domain == "ai.onnx"; }
std::string canonical(const std::string& domain) { return domain == "ai.onnx" ? "" : domain; }

}  // namespace

void parse_model(std::span<const uint8_t> bytes, const std::string& name, ::onnx::ModelProto& model) {
  if (bytes.size() > size_t(INT_MAX))
    throw Error(kUnsupported, name, "is larger than 2 GiB", "store the weights as external data");
  google::protobuf::SetLogHandler(nullptr);  // it would print its own words; refusals are worded below
  google::protobuf::io::CodedInputStream stream(bytes.data(), int(bytes.size()));
  stream.SetRecursionLimit(kMaxNesting);
  stream.SetTotalBytesLimit(int(bytes.size()));
  if (!model.ParsePartialFromCodedStream(&stream) || !stream.ConsumedEntireMessage())
    throw Error(kBadInput, name, "is not a whole ONNX file: its fields cannot be read to the end",
                "it may be truncated: copy or export it again; or it has graphs in graphs, more than 20 deep");
  if (!model.has_graph()) throw Error(kBadInput, name, "has no graph");
}

FileWalk::FileWalk(const std::string& name, const ImportOptions& options, const TorchConstants& torch,
                   SplitParameters split, const Budget& budget)
    : import_(*this, name, options, torch, std::move(split)), graph_(import_.graph()), current_(import_.current()),
      log_(import_.log()), options_(options), declared_(import_) {
  graph_.budget = budget;
}

void FileWalk::read_opsets(Scope& scope,
                           const google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>& imports) {
  for (const auto& import : imports) {
    const int64_t version = std::clamp<int64_t>(import.version(), -1, INT_MAX);
    scope.opsets[canonical(import.domain())] = int(version);
    if (is_main_domain(import.domain()) && (version < kOldestOpset || version > kNewestOpset))
      log_.note_refusal(Error(kUnsupported, graph_.source,
                              "uses opset " + std::to_string(import.version()) + ", " + std::to_string(kOldestOpset) +
                                  " to " + std::to_string(kNewestOpset) + " are supported",
                              "export it with another opset_version"));
  }
}

void FileWalk::read_functions(const ::onnx::ModelProto& model) {
  for (const ::onnx::FunctionProto& function : model.functions())
    if (!functions_.emplace(std::pair(canonical(function.domain()), function.name()), &function).second)
      log_.note_refusal(Error(kUnsupported, graph_.source, "has two functions of the name " + function.name()));
}

bool FileWalk::is_known(const ::onnx::NodeProto& node) const {
  const std::string domain = canonical(node.domain());
  return find_importer(node.op_type(), domain) != nullptr || functions_.contains({domain, node.op_type()}) ||
         is_computed_at_import(domain, node.op_type());
}

void FileWalk::read_node(Scope& scope, const ::onnx::NodeProto& node) {
  const std::string layer_op = current_.layer_op;
  try {
    read_supported(scope, node);
  } catch (const Error& error) {
    log_.note_refusal(error);
    current_.layer_op = layer_op;
    current_.source = nullptr;
    declared_.leave_unknown(scope, node, is_known(node));
  }
}

void FileWalk::read_supported(Scope& scope, const ::onnx::NodeProto& node) {
  const std::string domain = canonical(node.domain());
  const auto function = functions_.find({domain, node.op_type()});
  const auto opset = scope.opsets.find(domain);
  Source source(node, opset != scope.opsets.end() ? opset->second : 0, &scope.attributes, &scope.uses);
  const OperatorImporter* importer = find_importer(node.op_type(), domain);
  if (!is_known(node)) {
    if (domain.starts_with("com.microsoft"))
      source.refuse("is an operator of ONNX Runtime: the file was optimized by it",
                    "export again with graph optimization off");
    if (domain.empty() && node.op_type() == "NonMaxSuppression")
      source.refuse("finds as many boxes as there are in the data, and sizes are fixed before a run",
                    "export the network up to its boxes and scores, and choose among them after the run");
    source.refuse(domain.empty() ? "this operator is not supported"
                                 : "operators of the domain " + domain + " are not supported");
  }
  if (function == functions_.end() && opset == scope.opsets.end()) source.malformed("no opset is given for its domain");
  for (const FirstForm& form : kFirstForms)
    if (domain.empty() && node.op_type() == form.op && source.opset < form.opset)
      source.refuse("opset " + std::to_string(source.opset) + " has it in another form",
                    "export with opset " + std::to_string(form.opset) + " or later");
  for (const std::string& input : node.input()) {
    source.inputs.push_back(input.empty() ? nullptr : import_.find(scope, input));
    if (!input.empty() && source.inputs.back() == nullptr)
      source.malformed("reads " + input + ", which nothing before it writes");
    if (!input.empty() && !source.inputs.back()->known()) return declared_.leave_unknown(scope, node, is_known(node));
  }
  if (function != functions_.end()) return call_function(scope, node, *function->second);
  if (run_control_flow(import_, scope, source)) return;
  current_.enter(scope, source);
  read_dynamic(import_, source);
  check_names(source);
  check_sequences(source);
  const size_t steps = graph_.nodes.size(), lines = graph_.log.size();
  Parameters& parameters = import_.parameters();
  const std::string key = options_.train ? parameters.key_of_computed(source) : "";
  if (!parameters.reuse_computed(key)) {
    if (!evaluate(import_, source, importer != nullptr) && !import_on_codes(import_, source) &&
        !import_on_narrow_integers(import_, source) && !import_on_whole_numbers(import_, source)) {
      if (importer == nullptr) refuse_at_run_time(source);
      importer->run(import_, source);
    }
    parameters.keep_computed(scope, source, key);
    parameters.note_computed(scope, source, importer);
  }
  log_.add_node(scope, source, steps, lines);
  current_.source = nullptr;
}

void FileWalk::call_function(Scope& scope, const ::onnx::NodeProto& node, const ::onnx::FunctionProto& function) {
  Scope inner;
  log_.add(Source(node, 0, &scope.attributes).place, "is written out: its function");
  inner.opsets = scope.opsets;
  read_opsets(inner, function.opset_import());
  for (const ::onnx::AttributeProto& attribute : node.attribute())
    inner.attributes[attribute.name()] = Source(node, 0, &scope.attributes).find(attribute.name().c_str());
  std::vector<OperandPtr> inputs;
  for (const std::string& input : node.input()) inputs.push_back(input.empty() ? nullptr : import_.find(scope, input));
  run_body(scope, inner, Source(node, 0, &scope.attributes, &scope.uses), function, inputs);
}

void FileWalk::spend_nodes(int64_t count) {
  constexpr int64_t kMostNodes = 1 << 18;
  if ((nodes_ += count) > kMostNodes)
    throw Error(kBadInput, graph_.source, "its functions and loops are more than 262,144 nodes when written out");
}

void FileWalk::run_body(Scope& scope, Scope& inner, const Source& call, const ::onnx::FunctionProto& function,
                        const std::vector<OperandPtr>& inputs) {
  const ::onnx::NodeProto& node = call.proto;
  if (scope.depth >= kMaxCallDepth)
    throw Error(kBadInput, node.op_type(), "functions call each other more than 16 deep");
  inner.depth = scope.depth + 1;
  spend_nodes(count_nodes(function.node()) + function.output_size());
  std::unordered_set<std::string> outputs;
  for (int i = 0; i < function.output_size(); ++i)
    if (call.wants(i)) outputs.insert(function.output(i));
  const NodeList live = live_nodes(in_order(function.node()), outputs, inner.uses);
  for (int i = 0; i < function.input_size() && size_t(i) < inputs.size(); ++i) {
    const OperandPtr& operand = inputs[size_t(i)];
    if (operand == nullptr) continue;
    operand->uses += inner.uses[function.input(i)] - 1;
    inner.operands.emplace(function.input(i), operand);
  }
  for (const ::onnx::NodeProto* each : live) read_node(inner, *each);
  for (int i = 0; i < node.output_size() && i < function.output_size(); ++i) {
    const OperandPtr result = call.wants(i) ? import_.find(inner, function.output(i)) : nullptr;
    if (!result) continue;
    result->uses += scope.uses[node.output(i)] - 1;
    scope.operands.emplace(node.output(i), result);
  }
}

// Writes an output of the network. A copy node makes its value if that is an input, a constant or another output.
void FileWalk::write_output(Scope& scope, const ::onnx::ValueInfoProto& output) {
  OperandPtr operand = import_.find(scope, output.name());
  if (!operand) throw Error(kBadInput, "output " + output.name(), "nothing writes it");
  if (!operand->known()) return;
  if (output.type().tensor_type().elem_type() == ::onnx::TensorProto::UINT16 && !operand->codes())
    throw Error(kUnsupported, "output " + output.name(), "has type uint16", "export it as int32");
  ::onnx::NodeProto proto;
  proto.set_name(output.name());
  proto.set_op_type("output");
  const Source source(proto, 0, &scope.attributes);
  current_.enter(scope, source);
  if (operand->dynamic) operand = value_of_part(import_, operand);
  const bool last = options_.io_nhwc && operand->rank() == 4;
  const ValueId codes = last ? kNone : codes_value(import_, operand);
  if (codes != kNone) return graph_.outputs.push_back({output.name(), codes, ""});
  ValueId id = last ? import_.channels_last(operand) : import_.plain(operand);
  const bool given = std::ranges::find(graph_.outputs, id, &Binding::value) != graph_.outputs.end();
  if (given || is_input(graph_, id) || import_.value(id).constant() || import_.value(id).quantizer) {
    Node copy = import_.step(Op::kCopy);
    copy.inputs = {id};
    id = import_.append(std::move(copy), output.name(), import_.value(id).type);
  }
  if (operand->kept != ElementType::kNone && !import_.value(id).quantizer) import_.value(id).type = operand->kept;
  graph_.outputs.push_back({output.name(), id, ""});
  current_.source = nullptr;
}

Graph FileWalk::run(const ::onnx::ModelProto& model) {
  Scope scope;
  if (model.ir_version() < 3 || model.ir_version() > kMaxIrVersion)
    log_.note_refusal(Error(kUnsupported, graph_.source,
                            "has IR version " + std::to_string(model.ir_version()) + ", 3 to " +
                                std::to_string(kMaxIrVersion) + " are supported",
                            "save it with model.ir_version = " + std::to_string(kMaxIrVersion)));
  read_opsets(scope, model.opset_import());
  read_functions(model);
  std::unordered_set<std::string> outputs;
  for (const auto& output : model.graph().output()) outputs.insert(output.name());
  if (outputs.empty()) throw Error(kBadInput, graph_.source, "has no outputs");
  const NodeList order = in_order(model.graph().node());
  live_ = live_nodes(order, outputs, scope.uses);
  log_.add_order(model.graph().node(), order, live_);
  graph_.batch = options_.batch > 0 ? options_.batch : 1;
  declared_.read_inputs(scope, model.graph());
  log_.add_unread(scope);
  require_bindings(graph_, graph_.inputs.size(), outputs.size());
  for (const ::onnx::NodeProto* node : live_) read_node(scope, *node);
  for (const auto& output : model.graph().output()) {
    try {
      write_output(scope, output);
    } catch (const Error& error) {
      log_.note_refusal(error);
    }
  }
  if (options_.train) judge_draws(import_);
  report_problems(graph_.source, log_.refusals(), "", "  ");
  count_runs(import_);
  if (options_.train) import_.parameters().note_folded(model.graph());
  for (std::vector<Binding>* bindings : {&graph_.inputs, &graph_.outputs})
    for (Binding& binding : *bindings)
      if (import_.has_images() && import_.value(binding.value).dims.size() == 4)
        binding.layout = options_.io_nhwc ? "NHWC" : "NCHW";
  if (!declared_.has_symbolic_batch() && options_.batch_if_open) graph_.batch = 1;
  if (options_.batch > 1 && !declared_.has_symbolic_batch() && !options_.batch_if_open)
    throw Error(
        kUsage, graph_.source, "its batch is fixed: it cannot be set to " + std::to_string(options_.batch),
        "export it with a dynamic batch axis; nacre tune " + option("micro-batch", "1") + " trains it row by row");
  move_quantizers_back(graph_);
  mark_batched(graph_, declared_.has_symbolic_batch() && declared_.has_batch_first());
  if (!model.producer_name().empty()) graph_.metadata.emplace_back("source.producer", model.producer_name());
  std::ranges::sort(graph_.metadata);
  return std::move(graph_);
}

const OperatorImporter* find_importer(const std::string& op, const std::string& domain) {
  using Importers = std::map<std::pair<std::string_view, std::string_view>, const OperatorImporter*>;
  static const Importers kImporters = [] {
    Importers all;
    for (const auto importers : {
#define NACRE_ONNX_SUBJECT(subject) subject##_importers(),
#include "tools/importers/onnx_subjects.inc"
#undef NACRE_ONNX_SUBJECT
         })
      for (const OperatorImporter& importer : importers)
        all.emplace(std::pair(importer.domain, importer.op), &importer);
    return all;
  }();
  const auto found = kImporters.find({domain, op});
  return found != kImporters.end() ? found->second : nullptr;
}

}  // namespace nacre::tools::onnx_import

namespace nacre::tools {

namespace {

using Visit = std::function<void(const ::onnx::TensorProto&)>;

void each_tensor(const ::onnx::GraphProto& graph, const Visit& visit);

void each_tensor(const google::protobuf::RepeatedPtrField<::onnx::NodeProto>& nodes, const Visit& visit) {
  for (const ::onnx::NodeProto& node : nodes)
    for (const ::onnx::AttributeProto& attribute : node.attribute()) {
      visit(attribute.t());
      each_tensor(attribute.g(), visit);
    }
}

void each_tensor(const ::onnx::GraphProto& graph, const Visit& visit) {
  for (const ::onnx::TensorProto& tensor : graph.initializer()) visit(tensor);
  each_tensor(graph.node(), visit);
}

}  // namespace

std::vector<std::string> external_files(std::span<const uint8_t> onnx, const std::string& name) {
  ::onnx::ModelProto model;
  if (!model.ParsePartialFromArray(onnx.data(), int(std::min(onnx.size(), size_t(INT_MAX))))) return {};
  const std::filesystem::path directory = std::filesystem::path(name).parent_path();
  std::vector<std::string> files;
  const Visit add = [&](const ::onnx::TensorProto& tensor) {
    for (const auto& entry : tensor.external_data())
      if (entry.key() == "location") files.push_back((directory / entry.value()).string());
  };
  each_tensor(model.graph(), add);
  for (const ::onnx::FunctionProto& function : model.functions()) each_tensor(function.node(), add);
  return files;
}

Graph import_onnx(std::span<const uint8_t> bytes, const std::string& name, const ImportOptions& options) {
  ::onnx::ModelProto model;
  onnx_import::parse_model(bytes, name, model);
  onnx_import::TorchConstants torch;
  const bool by_torch = model.producer_name() == "pytorch";
  std::vector<std::string> notes;
  if (options.train && !options.settled && by_torch) notes = onnx_import::keep_gradients(model, name, options);
  if (options.train) torch = onnx_import::separate_torch_constants(model, name);
  torch.wrote = by_torch;
  torch.notes.insert(torch.notes.end(), notes.begin(), notes.end());
  // Arithmetic on weights takes 8 bytes for each element of an operand or result. Weights that are standardised at
  // import, (w - mean w) / std w, took 12 times the file. Half the file makes the limit 256 MiB plus 32 times the file.
  const Budget budget(bytes.size() / 2);
  onnx_import::FileWalk first(name, options, torch, {}, budget);
  Graph graph = first.run(model);
  if (const onnx_import::SplitParameters split = first.split_parameters(); !split.computed.empty())
    graph = onnx_import::FileWalk(name, options, torch, split, budget).run(model);
  graph.quantize_rounding = Rounding::kHalfEven;  // QuantizeLinear
  return graph;
}

}  // namespace nacre::tools
