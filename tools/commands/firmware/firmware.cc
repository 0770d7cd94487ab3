#include "tools/commands/firmware/firmware.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/files/output_files.h"
#include "tools/model/golden.h"
#include "tools/model/kernel_choice.h"
#include "tools/model/static_source.h"
#include "tools/tuner/tuner.h"

namespace nacre::tools {
namespace {

// Refuses a name that is no C identifier of at most 60 characters: the names of files and symbols begin with it.
void require_identifier(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const bool good = !name.empty() && name.size() <= 60 && letter(name[0]) &&
                    std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
  if (!good) throw Error(kUsage, "--name " + name, "is no identifier of C", "take letters, digits and _, at most 60");
}

// Returns the microcontroller for which the model has programs, if it is the only one, else arm/m4.
std::string usual_target(const LoadedModel& model) {
  std::set<std::string> found;
  for (uint32_t i = 0; i < model.model().program_count(); ++i)
    if (const std::string target = model.program_names(i).target; is_microcontroller(target)) found.insert(target);
  return found.size() == 1 ? *found.begin() : "arm/m4";
}

// Returns the inference program for the target if the file has one, else the one for the host, which the reference
// kernels can run on any machine. Refuses a model that has neither.
uint32_t program_for(const LoadedModel& model, const std::string& target) {
  for (const std::string& wanted : {target, std::string("host")})
    for (uint32_t i = 0; i < model.model().program_count(); ++i)
      if (model.model().program(i).entry == Entry::kInfer && model.program_names(i).target == wanted) return i;
  return model.infer_program(target);
}

StaticTables tables_of(const LoadedModel& model, bool train, const TargetMachine& machine) {
  if (train) return static_training_tables(model, machine.name, machine);
  return static_tables(model, program_for(model, machine.name), machine);
}

// Returns golden pairs of the program that infers, run with the state that training begins with.
std::vector<GoldenPair> golden_of_training(const LoadedModel& model, uint32_t program, uint32_t count) {
  const std::string target = model.program_names(program).target;
  LoadedTrainer owner(model, {port_for_target(target)}, 1, target);
  const Program& infer = owner.trainer().infer();
  std::vector<GoldenPair> pairs;
  for (uint32_t seed = 1; seed <= count; ++seed) {
    model.require(infer.start());
    GoldenPair pair = {program, seeded_inputs(model, program, seed), {}, 0};
    const uint8_t* from = pair.inputs.data();
    for (uint32_t i = 0; i < infer.input_count(); from += infer.input(i++).size())
      std::memcpy(infer.input(i).data(), from, infer.input(i).size());
    model.require(infer.run());
    for (uint32_t i = 0; i < infer.output_count(); ++i) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(infer.output(i).data());
      pair.outputs.insert(pair.outputs.end(), bytes, bytes + infer.output(i).size());
    }
    pairs.push_back(std::move(pair));
  }
  return pairs;
}

}  // namespace

void firmware(const FirmwareOptions& options, const CommandFiles& files) {
  require_identifier(options.name);
  const LoadedModel model(options.model);
  model.require(model.model().check_weights());
  const std::string target = options.target.empty() ? usual_target(model) : options.target;
  const TargetMachine* machine = find_machine(target);
  if (machine == nullptr)
    throw Error(kUsage, "--target", fmt::format("'{}' is not a machine that nacre knows", target));
  const StaticTables tables = tables_of(model, options.train, *machine);
  const uint32_t infer = tables.infer().index;
  const StaticSource source = {.model = model,
                               .machine = *machine,
                               .tables = tables,
                               .name = options.name,
                               .golden = options.train ? golden_of_training(model, infer, options.golden)
                                                       : make_golden(model, infer, options.golden)};
  OutputFiles out(options.directory);
  for (const auto& [name, text] : static_source(source)) out.add(name, {text.begin(), text.end()});
  for (const std::string& path : out.paths()) files.require_no_input("--output", path);
  OutputFiles* const all[] = {&out};
  write_together(all);

  const uint64_t state = options.train ? tables.block_bytes[tables.state_block(kState)] : 0;
  if (options.json)
    return print_json({{"model", options.model},
                       {"output", options.directory},
                       {"machine", machine->name},
                       {"files", out.paths()},
                       {"trains", options.train},
                       {"table_bytes", tables.table_bytes(*machine)},
                       {"weight_bytes", tables.block_bytes[StaticTables::kWeightsBlock]},
                       {"ram_bytes", tables.ram_bytes()},
                       {"state_bytes", state},
                       {"golden", options.golden}});
  print(fmt::format("{} -> {}: a static program for {}{}\n", escaped(options.model), escaped(options.directory),
                    machine->name, options.train ? ", and those that train it" : ""));
  for (const std::string& path : out.paths()) print(fmt::format("  {}\n", escaped(path)));
  print(fmt::format("  flash    tables {}, weights {}\n", grouped(tables.table_bytes(*machine)),
                    grouped(tables.block_bytes[StaticTables::kWeightsBlock])));
  print(fmt::format("  RAM      {}, without the stack{}\n", grouped(tables.ram_bytes()),
                    options.train ? fmt::format("; state {}", grouped(state)) : ""));
}

}  // namespace nacre::tools
