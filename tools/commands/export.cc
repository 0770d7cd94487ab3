#include "tools/commands/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tools/atomic_file.h"
#include "tools/compile.h"
#include "tools/error.h"
#include "tools/format.h"
#include "tools/npy.h"
#include "tools/print.h"
#include "tools/training/export.h"
#include "tools/training/file_storage.h"
#include "tools/training/memory.h"
#include "tools/training/tuned_model.h"
#include "tools/version.h"
#include "tools/writer.h"

namespace nacre::tools {
namespace {

namespace fs = std::filesystem;

void check_options(const ExportOptions& o) {
  const bool policies = !o.policies.policy.empty() || !o.policies.set.empty() || !o.policies.file.empty();
  if (o.network.empty() && (policies || o.batch > 0))
    throw Error(kUsage, policies ? "--policy" : "--batch", "is about compiling anew, and there is no network", "add --network FILE, of which the model was made");
  std::error_code error;
  if (fs::equivalent(o.model, o.output, error)) throw Error(kUsage, o.output, "is the model itself", "name another file with -o");
}

Checkpoint::Report load(const ExportOptions& o, const LoadedModel& model, Trainer& trainer) {
  const std::string directory = o.checkpoint + (o.best ? "/best" : "");
  require_checkpoints(directory);
  FileStorage files(directory);
  Checkpoint::Report report;
  if (const Status status = Checkpoint(files.storage()).load(model.model(), trainer.state(), &report); !status.ok())
    throw Error(kBadInput, directory, files.problem().empty() ? sentence(status.code) : files.problem(), "name a directory with checkpoints of this model");
  model.require(trainer.restored());
  return report;
}

// The network's own graph with the numbers that were learned, through all passes of the converter.
std::vector<uint8_t> compiled_anew(const ExportOptions& o, const LoadedModel& model, std::span<const std::byte> state, int* taken) {
  Graph graph = load_network(o.network, {.batch = o.batch}, {.fold_batch_norm = false});
  *taken = with_parameters(graph, model, state);
  if (*taken == 0)
    throw Error(kBadInput, o.network, "has no constant of a name that the training model learned", "name the network that the model was made of");
  simplify(graph, {});
  CompileOptions compiling;
  compiling.policies = parse_policy_options(o.policies);
  graph.metadata.emplace_back("converter", fmt::format("nacre {}", kVersion));
  graph.metadata.emplace_back("source_sha256", sha256(read_file(o.network)));
  graph.metadata.emplace_back("tuned", "from a checkpoint");
  std::ranges::sort(graph.metadata);
  const Compiled made = compile(std::move(graph), compiling);
  const LoadedModel check(made.bytes, o.network, "this is a defect of the converter: report it with the network");
  check.require(check.model().check_weights());
  return made.bytes;
}

}  // namespace

void export_model(const ExportOptions& options) {
  check_options(options);
  const LoadedModel model(options.model);
  if (!trains(model))
    throw Error(kUsage, options.model, "holds no program that trains", "name the model that the checkpoint belongs to: nacre convert NETWORK --train LOSS -o MODEL");
  LoadedTrainer trainer(model);
  const Checkpoint::Report report = load(options, model, trainer.trainer());
  int parameters = 0;
  const std::vector<uint8_t> bytes = options.network.empty() ? tuned_model(trainer, {{"tuned", "from a checkpoint"}})
                                                             : compiled_anew(options, model, trainer.trainer().state(), &parameters);
  write_file_whole(options.output, bytes);
  if (options.json)
    return print_json({{"model", options.model}, {"output", options.output}, {"taken", report.taken}, {"kept", report.kept}, {"file_bytes", bytes.size()}});
  print(fmt::format("{} -> {}\n  state    {} of {} tensors from the checkpoint{}\n  file     {} bytes\n", options.model, options.output, report.taken,
                    report.taken + report.kept, options.network.empty() ? "" : fmt::format(", {} into {}", counted(uint64_t(parameters), "constant"), options.network),
                    grouped(bytes.size())));
}

}  // namespace nacre::tools
