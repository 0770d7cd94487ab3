#include "tools/commands/firmware.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/files/output_files.h"
#include "tools/model/golden.h"
#include "tools/model/static_source.h"

namespace nacre::tools {
namespace {

// The name begins those of files and of symbols.
void require_identifier(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const bool good = !name.empty() && name.size() <= 60 && letter(name[0]) &&
                    std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
  if (!good) throw Error(kUsage, "--name " + name, "is no identifier of C", "take letters, digits and _, at most 60");
}

// The program for the target where the file has one; else the one that runs on the reference kernels everywhere.
uint32_t program_for(const LoadedModel& model, const std::string& target) {
  for (uint32_t i = 0; i < model.model().program_count(); ++i)
    if (model.model().program(i).entry == Entry::kInfer && model.program_names(i).target == target) return i;
  return model.infer_program("host");
}

}  // namespace

void firmware(const FirmwareOptions& options, const CommandFiles& files) {
  require_identifier(options.name);
  const TargetMachine* machine = find_machine(options.target.c_str());
  if (machine == nullptr)
    throw Error(kUsage, "--target", fmt::format("'{}' is not a machine that nacre knows", options.target));
  const LoadedModel model(options.model);
  const uint32_t program = program_for(model, options.target);
  model.require(model.model().check_weights());
  const StaticTables tables = static_tables(model, program, *machine);
  const StaticSource source = {.model = model,
                               .program = program,
                               .machine = *machine,
                               .tables = tables,
                               .name = options.name,
                               .golden = make_golden(model, program, options.golden)};
  OutputFiles out(options.directory);
  for (const auto& [name, text] : static_source(source)) out.add(name, {text.begin(), text.end()});
  for (const std::string& path : out.paths()) files.require_no_input("--output", path);
  OutputFiles* const all[] = {&out};
  write_together(all);

  uint64_t ram = tables.scratch_bytes;
  for (size_t block = StaticTables::kStreamBlock; block < tables.block_bytes.size(); ++block)
    ram += tables.block_bytes[block];
  if (options.json)
    return print_json({{"model", options.model},
                       {"output", options.directory},
                       {"machine", machine->name},
                       {"files", out.paths()},
                       {"table_bytes", tables.table_bytes()},
                       {"weight_bytes", tables.block_bytes[StaticTables::kWeightsBlock]},
                       {"ram_bytes", ram},
                       {"golden", options.golden}});
  print(fmt::format("{} -> {}: a static program for {}\n", escaped(options.model), escaped(options.directory),
                    machine->name));
  for (const std::string& path : out.paths()) print(fmt::format("  {}\n", escaped(path)));
  print(fmt::format("  flash    tables {}, weights {}\n", grouped(tables.table_bytes()),
                    grouped(tables.block_bytes[StaticTables::kWeightsBlock])));
  print(fmt::format("  RAM      {}, without the stack\n", grouped(ram)));
}

}  // namespace nacre::tools
