#include "tools/commands/size/size.h"

#include <fmt/format.h>

#include <optional>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/evaluate/flash.h"
#include "tools/evaluate/training_memory.h"
#include "tools/model/loaded_model.h"
#include "tools/model/machines.h"

namespace nacre::tools {
namespace {

constexpr const char* kEntries[] = {"infer", "gradients", "update", "derive"};
static_assert(std::size(kEntries) == size_t(Entry::kCount));

struct MeasuredProgram {
  ProgramNames names;
  ProgramView view;
  Sizes sizes;
  uint64_t total;  // bytes of the memory blocks that bind needs, and of the objects Model and Program
};

std::vector<MeasuredProgram> programs_of(const LoadedModel& model, const TargetMachine& machine) {
  std::vector<MeasuredProgram> programs;
  for (uint32_t i = 0; i < model.model().program_count(); ++i) {
    const Sizes sizes = measure(model, i, {.pointer_bytes = machine.pointer_bytes, .workers = 1});
    programs.push_back({.names = model.program_names(i),
                        .view = model.model().program(i),
                        .sizes = sizes,
                        .total = sizes.total() + machine.model_bytes + machine.program_bytes});
  }
  return programs;
}

bool shown(const MeasuredProgram& p, uint32_t block) {
  return block < kArena ? p.sizes.bytes[block] > 0 || block == kCalls || block == kScratch
                        : block - kArena < p.view.banks.size();
}

// Returns the flash of the first program that infers, as `nacre firmware` writes it; nothing if it cannot be static.
std::optional<StaticFlash> flash_of(const LoadedModel& model, const TargetMachine& machine) {
  for (uint32_t i = 0; i < model.model().program_count(); ++i) {
    if (model.model().program(i).entry != Entry::kInfer) continue;
    try {
      return static_flash(static_tables(model, i, machine), machine);
    } catch (const Error&) {  // it cannot be static, for example because it has weights that bind prepares
      return {};
    }
  }
  return {};
}

void print_text(const LoadedModel& model, const TargetMachine& machine, const std::vector<MeasuredProgram>& programs) {
  for (const MeasuredProgram& p : programs) {
    print(fmt::format("{}: {} for {}, in bytes on {}\n", model.path(), kEntries[size_t(p.view.entry)], p.names.target,
                      machine.name));
    for (uint32_t block = kBlockCount; block-- > 0;)
      if (shown(p, block))
        print(fmt::format("  {:<22} {:>14}\n", block_name(block, p.names), grouped(p.sizes.bytes[block])));
    print(fmt::format("  {:<22} {:>14}\n", "Model", grouped(machine.model_bytes)));
    print(fmt::format("  {:<22} {:>14}\n", "Program", grouped(machine.program_bytes)));
    print(fmt::format("  {:<22} {:>14}   without the stack; each block starts at a multiple of {}\n", "total",
                      grouped(p.total), kAlignment));
  }
  print(fmt::format("  {:<22} {:>14}   read in place; of it weights {}\n", "file",
                    grouped(model.model().bytes().size()), grouped(model.weight_bytes())));
  if (const auto flash = flash_of(model, machine))
    print(
        fmt::format("  {:<22} {:>14}   of a static program (nacre firmware), -Os: kernels {}, tables {}; weights {}\n",
                    "flash", grouped(flash->kernels + flash->tables + flash->weights), grouped(flash->kernels),
                    grouped(flash->tables), grouped(flash->weights)));
}

void print_as_json(const LoadedModel& model, const TargetMachine& machine,
                   const std::vector<MeasuredProgram>& programs) {
  Json list = Json::array();
  for (const MeasuredProgram& p : programs) {
    Json banks = Json::array();
    for (size_t bank = 0; bank < p.view.banks.size(); ++bank)
      banks.push_back({{"name", p.names.banks[bank]}, {"bytes", p.view.banks[bank]}});
    Json blocks = Json::object();
    for (uint32_t block = 0; block <= kStepSums; ++block) blocks[block_name(block, p.names)] = p.sizes.bytes[block];
    list.push_back({{"entry", kEntries[size_t(p.view.entry)]},
                    {"target", p.names.target},
                    {"steps", p.view.step_count},
                    {"arena", banks},
                    {"blocks", blocks},
                    {"model_object", machine.model_bytes},
                    {"program_object", machine.program_bytes},
                    {"total", p.total}});
  }
  Json json = {{"model", model.path()},
               {"machine", machine.name},
               {"file_bytes", model.model().bytes().size()},
               {"weight_bytes", model.weight_bytes()},
               {"programs", list}};
  if (const auto flash = flash_of(model, machine))
    json["static_flash"] = {{"kernels", flash->kernels}, {"tables", flash->tables}, {"weights", flash->weights}};
  print_json(json);
}

struct Line {
  const char* name;
  uint64_t bytes;
  const char* note;
};

std::vector<Line> lines(const TrainingMemory& m) {
  return {{"parameters", m.parameters, "state: the trained numbers, masters of what is cast"},
          {"moments", m.moments, "state: the optimizer's"},
          {"statistics", m.statistics, "state: running statistics, scales, counters"},
          {"gradients", m.gradients, "step block"},
          {"sums", m.sums, "step block: loss, counts, statistics"},
          {"derived", m.derived, "casts of parameters"},
          {"stream", m.stream, "what survives from run to run"},
          {"arena", m.arena, "the largest of the programs"},
          {"scratch", m.scratch, ""},
          {"calls", m.calls, "bound steps of all programs"},
          {"objects", m.objects, "Model and Trainer"}};
}

void print_training(const LoadedModel& model, const TargetMachine& machine, bool json) {
  if (!trains(model))
    throw Error(kUsage, model.path(), "holds no program that trains",
                "make one: nacre convert NETWORK --train LOSS -o MODEL");
  const TrainingMemory m = training_memory(model, machine);
  if (json) {
    Json bytes = Json::object();
    for (const Line& line : lines(m)) bytes[line.name] = line.bytes;
    return print_json({{"model", model.path()},
                       {"machine", machine.name},
                       {"bytes", bytes},
                       {"state", m.state()},
                       {"total", m.total()},
                       {"weights", m.weights},
                       {"activations", m.activations},
                       {"liveness_bound", m.bound}});
  }
  print(fmt::format("{}: training, in bytes on {}\n", model.path(), machine.name));
  for (const Line& line : lines(m)) {
    print(
        fmt::format("  {:<12} {:>14}{}{}\n", line.name, grouped(line.bytes), *line.note != 0 ? "   " : "", line.note));
    if (std::string_view(line.name) == "arena")
      print(fmt::format("  {:<12} {:>14}   of it held for the backward pass {}; no plan is smaller than {}\n", "", "",
                        grouped(m.activations), grouped(m.bound)));
  }
  print(fmt::format("  {:<12} {:>14}   without the stack\n", "total", grouped(m.total())));
  print(fmt::format("  {:<12} {:>14}   in the file, read in place: frozen parameters and first values\n", "weights",
                    grouped(m.weights)));
}

}  // namespace

void size(const SizeOptions& options) {
  const TargetMachine* machine = find_machine(options.target);
  if (machine == nullptr)
    throw Error(kUsage, "--target", fmt::format("'{}' is not a machine that nacre knows", options.target));
  const LoadedModel model(options.model);
  if (options.train) return print_training(model, *machine, options.json);
  const std::vector<MeasuredProgram> programs = programs_of(model, *machine);
  options.json ? print_as_json(model, *machine, programs) : print_text(model, *machine, programs);
}

}  // namespace nacre::tools
