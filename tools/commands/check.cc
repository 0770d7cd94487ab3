#include "tools/commands/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/base/print.h"
#include "tools/files/atomic_file.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

std::vector<GoldenResult> run_golden(const LoadedModel& model) {
  std::vector<GoldenResult> results;
  const std::vector<GoldenView> pairs = model.golden();
  for (uint32_t i = 0; i < pairs.size(); ++i) {
    BoundProgram bound(model, pairs[i].program);
    const std::vector<uint8_t> outputs = bound.run(pairs[i].inputs);
    results.push_back({i, pairs[i].tolerance, difference(model, pairs[i].program, pairs[i].outputs, outputs)});
  }
  return results;
}

std::string text_of(const GoldenResult& result) {
  const Difference& d = result.difference;
  if (result.tolerance == 0)
    return fmt::format("{}", d.bytes == 1 ? "1 byte differs" : grouped(d.bytes) + " bytes differ");
  return fmt::format("largest difference {:.3g} of the largest magnitude, allowed {:.3g}{}", d.largest,
                     result.tolerance,
                     d.bytes > 0 ? fmt::format("; integer outputs differ in {}", counted(d.bytes, "byte")) : "");
}

void print_text(const LoadedModel& model, const std::vector<Statistics>& programs,
                const std::vector<GoldenResult>& golden) {
  print(fmt::format("{}: {} bytes, {} of them weights\n", model.path(), grouped(model.model().bytes().size()),
                    grouped(model.weight_bytes())));
  print("  structure  every index, lifetime and offset holds\n");
  print("  weights    checksums match, all finite\n");
  for (size_t i = 0; i < programs.size(); ++i) {
    const std::string target = model.program_names(uint32_t(i)).target;
    print(fmt::format("  program {}  {} {}; arena {} bytes, liveness lower bound {}\n", i,
                      counted(programs[i].steps, "step"),
                      target_runs_here(target) ? "bound" : fmt::format("measured for {}, not bound here", target),
                      grouped(programs[i].arena_bytes), grouped(programs[i].liveness_bound)));
  }
  for (const GoldenResult& result : golden)
    print(fmt::format("  golden {}   {}: {}\n", result.pair, result.ok() ? "ok" : "FAILED", text_of(result)));
  if (golden.empty()) print("  golden     none stored\n");
}

void print_as_json(const LoadedModel& model, const std::vector<Statistics>& programs,
                   const std::vector<GoldenResult>& golden, bool ok) {
  Json program_list = Json::array(), golden_list = Json::array();
  for (const Statistics& s : programs)
    program_list.push_back({{"steps", s.steps},
                            {"tensors", s.tensors},
                            {"batch", s.batch},
                            {"multiply_accumulates", s.multiply_accumulates},
                            {"arena_bytes", s.arena_bytes},
                            {"liveness_bound", s.liveness_bound}});
  for (const GoldenResult& result : golden)
    golden_list.push_back({{"ok", result.ok()},
                           {"differing_bytes", result.difference.bytes},
                           {"largest_difference", result.difference.largest},
                           {"tolerance", result.tolerance}});
  print_json({{"model", model.path()},
              {"ok", ok},
              {"file_bytes", model.model().bytes().size()},
              {"weight_bytes", model.weight_bytes()},
              {"programs", program_list},
              {"golden", golden_list}});
}

}  // namespace

std::vector<GoldenResult> check_loaded(const LoadedModel& model) {
  model.require(model.model().check_weights());
  for (uint32_t i = 0; i < model.model().program_count(); ++i)
    if (target_runs_here(model.program_names(i).target)) const BoundProgram bound(model, i);
    else measure(model, i);
  return run_golden(model);
}

void require_golden(const LoadedModel& model, const std::vector<GoldenResult>& results) {
  const auto failed = std::ranges::count_if(results, [](const GoldenResult& r) { return !r.ok(); });
  if (failed > 0)
    throw Error(kFailed, model.path(), fmt::format("{} of {} golden pairs differ", failed, results.size()),
                "this machine's kernels or the file's weights are not those that the pairs were made with");
}

void write_checked(const std::string& path, std::span<const uint8_t> bytes, const std::string& network) {
  const LoadedModel model(bytes, network, "this is a defect of the converter: report it with the network");
  require_golden(model, check_loaded(model));
  write_file_whole(path, bytes);
}

void check_model(const CheckOptions& options) {
  const LoadedModel model(options.model);
  const std::vector<GoldenResult> golden = check_loaded(model);
  std::vector<Statistics> programs;
  for (uint32_t i = 0; i < model.model().program_count(); ++i) programs.push_back(statistics(model, i));
  const bool ok = std::ranges::all_of(golden, &GoldenResult::ok);
  options.json ? print_as_json(model, programs, golden, ok) : print_text(model, programs, golden);
  require_golden(model, golden);
}

}  // namespace nacre::tools
