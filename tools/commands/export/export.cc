#include "tools/commands/export/export.h"

#include <fmt/format.h>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/commands/check.h"
#include "tools/compile/write_back.h"
#include "tools/evaluate/training_memory.h"
#include "tools/files/atomic_file.h"
#include "tools/importers/importer.h"
#include "tools/tuner/saved_state.h"
#include "tools/tuner/tuned_model.h"

namespace nacre::tools {
namespace {

// Refuses a network of another format than the option names, before its file is written.
void require_format(const ExportOptions& o) {
  const Format format = sniff(read_network(o.network));
  const bool keras = format == Format::kZip || format == Format::kHdf5 || format == Format::kJson;
  if (o.keras && !keras)
    throw Error(kUsage, "--keras", o.network + " is no file of Keras", "name the .keras or .h5 file");
  if (o.onnx && format != Format::kOnnx) throw Error(kUsage, "--onnx", o.network + " is no ONNX file", "name it");
}

// Returns options that import the network for training. A file that is written back keeps the rows of its runs.
ImportOptions importing_of(const ExportOptions& o) {
  return {.batch = o.keras || o.onnx ? 0 : o.batch,
          .shapes = o.shapes,
          .train = true,
          .ignored = o.ignored,
          .settled = true};
}

void export_file(const ExportOptions& o, const LoadedModel& model, LoadedTrainer& trainer, const LoadedState& loaded) {
  const Checkpoint::Report& report = loaded.report;
  const WrittenBack made =
      write_back({.network = o.network, .importing = importing_of(o)}, model, trainer.trainer().state());
  write_file_whole(o.output, made.counts.bytes);
  if (o.json)
    return print_json({{"model", o.model},
                       {"network", o.network},
                       {"output", o.output},
                       {"taken", report.taken},
                       {"kept", report.kept},
                       {"checkpoint", loaded.json()},
                       {"warnings", loaded.warnings},
                       {"parameters", made.counts.parameters},
                       {"adapters", made.counts.adapters},
                       {"tensors", made.tensors},
                       {"numbers", made.numbers},
                       {"file_bytes", made.counts.bytes.size()}});
  print(fmt::format("{} -> {}\n  state    {} of {} tensors from the checkpoint{}\n", escaped(o.network),
                    escaped(o.output), report.taken, report.taken + report.kept, loaded.where_text()));
  print(fmt::format("  learned  {}, {} in {} of the file; the rest is as it was\n", deployed_text(made.counts),
                    counted(made.numbers, "number"), counted(made.tensors, "tensor")));
}

}  // namespace

void export_model(const ExportOptions& options) {
  const bool writes_back = options.keras || options.onnx;
  if (writes_back) require_format(options);
  const LoadedModel model(options.model);
  if (!trains(model))
    throw Error(kUsage, options.model, "holds no program that trains",
                "name the model that the checkpoint belongs to: nacre convert NETWORK --train LOSS -o MODEL");
  LoadedTrainer trainer(model);
  const LoadedState loaded =
      load_state(trainer, options.checkpoint, {.any_training = options.any_training, .best = options.best});
  const Checkpoint::Report& report = loaded.report;
  for (const std::string& warning : loaded.warnings) warn(warning);
  if (writes_back) return export_file(options, model, trainer, loaded);
  const std::vector<std::pair<std::string, std::string>> metadata = {{"tuned", "from a checkpoint"}};
  Deployed made;
  if (options.network.empty()) made.bytes = tuned_model(trainer, metadata);
  else
    made = Deployment({.network = options.network,
                       .importing = importing_of(options),
                       .policies = parse_policy_options(options.policies),
                       .samples = options.samples,
                       .metadata = metadata})
               .deploy(model, trainer.trainer().state());
  write_checked(options.output, made.bytes, options.model);
  if (options.json)
    return print_json({{"model", options.model},
                       {"output", options.output},
                       {"taken", report.taken},
                       {"kept", report.kept},
                       {"checkpoint", loaded.json()},
                       {"warnings", loaded.warnings},
                       {"parameters", made.parameters},
                       {"adapters", made.adapters},
                       {"file_bytes", made.bytes.size()},
                       {"fallbacks", made.fallbacks}});
  print(fmt::format("{} -> {}\n  state    {} of {} tensors from the checkpoint{}\n", escaped(options.model),
                    escaped(options.output), report.taken, report.taken + report.kept, loaded.where_text()));
  print(fmt::format(
      "  network  {}\n",
      options.network.empty()
          ? "as the training infers, batch norms and adapters as steps; --network FILE compiles it anew without them"
          : deployed_text(made)));
  print(fmt::format("  file     {} bytes\n", grouped(made.bytes.size())));
  print(fallbacks_text(made.fallbacks));
}

}  // namespace nacre::tools
