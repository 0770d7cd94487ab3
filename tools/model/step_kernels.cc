#include "tools/model/step_kernels.h"

#include <span>

#include "engine/run/find_entry.h"
#include "tools/base/error.h"
#include "tools/base/option_id.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

// Picks a kernel entry as Places::pick does. If the step names XNNPACK's place, `xnnpack` (null: none) is asked first,
// then the set of the tier (kernel_choice.h) if `sets` begins with one, then the reference's sets.
const KernelEntry* entry_for(const Model& model, uint32_t index, std::span<const KernelSet* const> sets,
                             const KernelSet* xnnpack) {
  LoadedStep step(model, index);
  const KernelEntry* entry = nullptr;
  if (step.load() != Code::kOk) return nullptr;
  if (xnnpack != nullptr && step.record.place == kXnnpackPlace &&
      find_packing_entry(step, {&xnnpack, 1}, &entry) == Code::kOk)
    return entry;
  const bool ported = sets.size() > kernels_of_target("").size();
  if (ported && find_packing_entry(step, sets.first(1), &entry) == Code::kOk) return entry;
  return find_packing_entry(step, sets.subspan(ported ? 1 : 0), &entry) == Code::kOk ? entry : nullptr;
}

bool is_host(const std::string& target) { return target.empty() || target == "host"; }

}  // namespace

bool names_kernels(const std::string& target) {
  const std::string set = set_of_target(target);
  return set.empty() || set == "host" || set == "reference" || !target_of_set(set).empty();
}

std::string kernels_for(const LoadedModel& model, uint32_t program, const std::string& target) {
  const std::string own = set_of_target(model.program_names(program).target), set = set_of_target(target);
  if (!target_of_set(own).empty()) return own;
  if (is_host(set)) return best_set();
  if (!names_kernels(target))
    throw Error(kUsage, option("target", target), "names no set of kernels", "nacre kernels lists them");
  return set;
}

std::vector<std::string> step_kernels(const LoadedModel& model, uint32_t program, const std::string& target) {
  const std::string set = kernels_for(model, program, target);
  const std::vector<const KernelSet*> sets = kernels_of_target(target_of_set(set));
  const ProgramView view = model.model().program(program);
  const bool placed = is_host(target) && names_place(model.model(), view, kXnnpackPlace);
  const KernelSet* const xnnpack = placed && xnnpack_port() != nullptr ? xnnpack_port()->set : nullptr;
  std::vector<std::string> names;
  for (uint32_t i = 0; i < view.step_count; ++i) {
    const KernelEntry* entry = entry_for(model.model(), view.first_step + i, sets, xnnpack);
    names.push_back(entry == nullptr ? "" : name_of_entry(*entry, set));
  }
  return names;
}

bool is_reference(const std::string& kernel) { return kernel.starts_with("reference/"); }

}  // namespace nacre::tools
