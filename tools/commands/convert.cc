#include "tools/commands/convert.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>

#include "tools/atomic_file.h"
#include "tools/error.h"
#include "tools/format.h"
#include "tools/golden.h"
#include "tools/graph/names.h"
#include "tools/importers/importer.h"
#include "tools/npy.h"
#include "tools/passes/passes.h"
#include "tools/print.h"
#include "tools/statistics.h"
#include "tools/version.h"
#include "tools/writer.h"

namespace nacre::tools {
namespace {

constexpr const char* kReport = "this is a defect of the converter: report it with the network";

struct Pass {
  const char* name;
  std::function<void(Graph&)> run;
};

// The table of contents of the converter. Policies come after simplify, which sees real-valued ops only; fuse comes
// after them, so that clamps melt into steps whose types are known.
std::vector<Pass> passes(const ConvertOptions& options, const Target& target) {
  const SimplifyOptions simplifying = {.fold_batch_norm = options.fold_batch_norm};
  const PolicyOptions policies = {.rounding = options.rounding};
  return {
      {"import", [](Graph&) {}},
      {"simplify", [=](Graph& graph) { simplify(graph, simplifying); }},
      {"apply_policy",
       [=](Graph& graph) {
         apply_policy(graph, {.rounding = policies.rounding, .quantize_rounding = graph.quantize_rounding});
       }},
      {"fuse", [](Graph& graph) { fuse(graph); }},
      {"schedule", [=](Graph& graph) { schedule(graph, target); }},
      {"plan_memory", [=](Graph& graph) { plan_memory(graph, target); }},
  };
}

// "64K" -> 65536. K and M are powers of 1024.
uint64_t parse_bytes(const std::string& text, const std::string& place) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, size_t(end - rest));
  const uint64_t factor = unit.empty() ? 1 : unit == "K" ? 1 << 10 : unit == "M" ? 1 << 20 : unit == "G" ? 1 << 30 : 0;
  if (error != std::errc() || factor == 0 || number == 0 || number > (uint64_t{1} << 40) / factor)
    throw Error(kUsage, place, fmt::format("'{}' is no number of bytes", text), "write bytes, or 64K, 2M, 1G");
  return number * factor;
}

std::vector<Bank> parse_banks(const std::string& text) {
  std::vector<Bank> banks;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string entry = text.substr(at, end - at), place = "--bank " + text;
    const size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals == std::string::npos || name.empty())
      throw Error(kUsage, place, fmt::format("'{}' is not NAME=BYTES", entry), "for example --bank tcm=64K,sram=512K");
    if (std::ranges::any_of(banks, [&](const Bank& b) { return b.name == name; }))
      throw Error(kUsage, place, fmt::format("the bank {} is given twice", name));
    banks.push_back({.name = name, .limit = parse_bytes(entry.substr(equals + 1), place)});
    at = end + 1;
  }
  if (banks.size() > size_t(kMaxBanks))
    throw Error(kUsage, "--bank", fmt::format("{} banks, at most {} are possible", banks.size(), kMaxBanks));
  return banks;
}

// What changes the bytes of the model, as one would type it.
std::string options_text(const ConvertOptions& o) {
  std::string text;
  const auto add = [&](const std::string& option) { text += (text.empty() ? "" : " ") + option; };
  if (o.batch > 0) add(fmt::format("--batch {}", o.batch));
  if (o.io_nhwc) add("--io-layout nhwc");
  if (!o.banks.empty()) add("--bank " + o.banks);
  if (o.keep_inputs) add("--keep-inputs");
  if (o.target != "host") add("--target " + o.target);
  if (o.rounding != Rounding::kDouble) add(fmt::format("--rounding {}", name_of(o.rounding)));
  if (!o.fold_batch_norm) add("--no-fold-bn");
  if (o.golden > 0) add(fmt::format("--golden {}", o.golden));
  if (o.strip_names) add("--strip-names");
  return text;
}

// What the model was made of: no path and no time, so that equal inputs give equal bytes.
void add_metadata(Graph& graph, const ConvertOptions& options) {
  graph.metadata.emplace_back("converter", fmt::format("nacre {}", kVersion));
  graph.metadata.emplace_back("converter_options", options_text(options));
  graph.metadata.emplace_back("source_sha256", sha256(read_file(options.network)));
  std::ranges::sort(graph.metadata);
}

void print_summary(const ConvertOptions& options, const Statistics& s, const Sizes& sizes) {
  print(fmt::format("{} -> {}\n", options.network, options.model));
  print(fmt::format("  layers   {} ({} steps)\n", s.layers, s.steps));
  print(fmt::format("  MACs     {}{}\n", grouped(s.multiply_accumulates),
                    s.batch > 1 ? fmt::format(" for a batch of {}", s.batch) : ""));
  print(fmt::format("  weights  {} bytes\n", grouped(s.weight_bytes)));
  print(fmt::format("  arena    {} bytes (liveness lower bound {})\n", grouped(s.arena_bytes),
                    grouped(s.liveness_bound)));
  if (s.banks.size() > 1)
    for (const BankUse& bank : s.banks) print(fmt::format("    {:<7}{} bytes\n", bank.name, grouped(bank.bytes)));
  if (sizes.bytes[kScratch] > 0) print(fmt::format("  scratch  {} bytes\n", grouped(sizes.bytes[kScratch])));
  if (options.golden > 0) print(fmt::format("  golden   {}\n", counted(options.golden, "pair")));
  print(fmt::format("  file     {} bytes\n", grouped(s.file_bytes)));
}

void print_summary_json(const ConvertOptions& options, const Statistics& s, const LoadedModel& model) {
  Json banks = Json::array();
  for (const BankUse& bank : s.banks) banks.push_back({{"name", bank.name}, {"bytes", bank.bytes}});
  Json metadata = Json::object();
  for (const auto& [key, value] : model.metadata()) metadata[key] = value;
  print_json({{"network", options.network},
              {"model", options.model},
              {"layers", s.layers},
              {"steps", s.steps},
              {"batch", s.batch},
              {"multiply_accumulates", s.multiply_accumulates},
              {"weight_bytes", s.weight_bytes},
              {"arena_bytes", s.arena_bytes},
              {"liveness_bound", s.liveness_bound},
              {"banks", banks},
              {"file_bytes", s.file_bytes},
              {"golden", options.golden},
              {"metadata", metadata}});
}

// Before any work: an answer to a typing error should not take a minute.
void check_paths(const ConvertOptions& options) {
  if (options.model.empty() && options.stop_after.empty())
    throw Error(kUsage, "convert", "no model file was named",
                "add -o MODEL, or --stop-after PASS to see the graph only");
  std::error_code error;
  if (std::filesystem::equivalent(options.network, options.model, error))
    throw Error(kUsage, options.model, "is the network itself", "name another file with -o");
}

}  // namespace

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const Pass& pass : passes({}, {})) names.emplace_back(pass.name);
  return names;
}

void convert(const ConvertOptions& options) {
  check_paths(options);
  const Target target = {
      .name = options.target, .banks = parse_banks(options.banks), .keep_inputs = options.keep_inputs};
  Graph graph = import_network(options.network, {.batch = options.batch, .io_nhwc = options.io_nhwc});
  for (const Pass& pass : passes(options, target)) {
    pass.run(graph);
    check(graph);
    if (pass.name == options.stop_after) break;
  }
  if (options.verbose)
    for (const std::string& line : graph.log) fmt::print(stderr, "{}\n", line);
  if (options.dump || !options.stop_after.empty()) print(dump(graph));
  if (!options.stop_after.empty()) return;

  add_metadata(graph, options);
  const ProgramSource source = {.graph = &graph, .entry = Entry::kInfer, .target = options.target};
  WriteOptions writing = {.names = !options.strip_names, .golden = {}};
  std::vector<uint8_t> bytes = write_model({&source, 1}, writing);
  if (options.golden > 0) {
    writing.golden = make_golden(LoadedModel(bytes, options.network, kReport), 0, options.golden);
    bytes = write_model({&source, 1}, writing);
  }
  const LoadedModel model(bytes, options.network, kReport);  // what is written can be read
  const Sizes sizes = measure(model, 0);
  write_file_whole(options.model, bytes);
  const Statistics s = statistics(model, 0);
  options.json ? print_summary_json(options, s, model) : print_summary(options, s, sizes);
}

}  // namespace nacre::tools
