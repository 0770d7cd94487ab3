#include "tools/commands/kernels/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "engine/kernels/training.h"
#include "ports/cortex_m/cortex_m.h"
#include "tools/base/error.h"
#include "tools/base/print.h"
#include "tools/commands/kernel_list.h"
#include "tools/files/atomic_file.h"
#include "tools/model/loaded_model.h"

namespace nacre::tools {
namespace {

struct NamedEntry {
  std::string space;  // namespace inside nacre: "reference" or "cortex_m"
  const char* name;
  const KernelEntry* entry;
};

// Returns whether these entries, in this order, run every program of the model.
bool suffice(const LoadedModel& model, const std::vector<NamedEntry>& named) {
  std::vector<const KernelEntry*> entries;
  for (const NamedEntry& n : named) entries.push_back(n.entry);
  const KernelSet set = {"candidate", entries};
  const KernelSet* sets[] = {&set};
  for (uint32_t i = 0; i < model.model().program_count(); ++i) {
    Sizes sizes;
    if (!Program::measure(model.model(), i, sets, &sizes).ok()) return false;
  }
  return true;
}

// Returns whether a program was made with --target arm/m4 or another target of Cortex-M kernels.
bool is_for_cortex_m(const LoadedModel& model) {
  for (uint32_t i = 0; i < model.model().program_count(); ++i)
    for (const Port& port : cortex_m::ports())
      if (model.program_names(i).target == port.name) return true;
  return false;
}

// Returns a minimal list: removes each entry without which the model still runs, from the last entry to the first. If
// two entries can run one step, the first of them stays, which is the one that bind takes.
std::vector<NamedEntry> needed_entries(const LoadedModel& model) {
  for (uint32_t i = 0; i < model.model().program_count(); ++i) measure(model, i);  // throws if a kernel is missing
  std::vector<NamedEntry> kept;
  const auto add = [&kept](const char* space, std::span<const reference::NamedEntry> list) {
    for (const reference::NamedEntry& named : list) kept.push_back({space, named.name, named.entry});
  };
  if (is_for_cortex_m(model)) add("cortex_m", cortex_m::list());
  add("reference", reference::list());
  add("reference", reference::training_list());
  // Sorts by op, like the entries of a KernelSet.
  std::ranges::stable_sort(kept, {}, [](const NamedEntry& n) { return n.entry->op; });
  for (size_t i = kept.size(); i-- > 0;) {
    std::vector<NamedEntry> fewer = kept;
    fewer.erase(fewer.begin() + std::ptrdiff_t(i));
    if (suffice(model, fewer)) kept = std::move(fewer);
  }
  return kept;
}

constexpr const char* kTop =
    R"(/* The kernels that the model {hash} needs, written by `nacre kernels`. Valid C and C++.
 *
 * One C++ file of the firmware defines NACRE_DEFINE_MODEL_KERNELS before it includes this header; every other file, C
 * or C++, includes it as it is and gives &model_kernels to nacre_program_measure and nacre_program_bind, or to
 * nacre::Program. */
#ifndef NACRE_MODEL_KERNELS_H
#define NACRE_MODEL_KERNELS_H

)";
constexpr const char* kDeclaration = R"(#ifdef __cplusplus
#include <nacre/kernels.h>
extern "C" {
#endif
extern const struct nacre_kernels model_kernels;
#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && defined(NACRE_DEFINE_MODEL_KERNELS)
)";

std::string header_text(const LoadedModel& model, const std::vector<NamedEntry>& entries) {
  std::string hash;
  for (const uint8_t byte : model.model().header().hash) hash += fmt::format("{:02x}", byte);
  std::string text = fmt::format(kTop, fmt::arg("hash", hash)) + kDeclaration;
  if (is_for_cortex_m(model)) text += "#include <nacre/cortex_m.h>\n";
  text += "\n";
  if (entries.empty()) {
    text += "constinit const nacre_kernels model_kernels = {\"model\", {}};\n";
  } else {
    text += "static constexpr const nacre::KernelEntry* const kModelKernelEntries[] = {\n";
    for (const NamedEntry& entry : entries) text += fmt::format("    &nacre::{}::{},\n", entry.space, entry.name);
    text += "};\nconstinit const nacre_kernels model_kernels = {\"model\", kModelKernelEntries};\n";
  }
  return text + "#endif\n\n#endif\n";
}

}  // namespace

void kernels(const KernelsOptions& options) {
  if (options.model.empty() && !options.header.empty())
    throw Error(kUsage, "--output", "is for the header of a model, and there is none", "give a model");
  if (options.model.empty()) return list_kernels(options.set, options.json);
  if (!options.set.empty() || options.json)
    throw Error(kUsage, options.set.empty() ? "--json" : "--set", "is about the sets of kernels",
                "leave out the model");
  const LoadedModel model(options.model);
  const std::string text = header_text(model, needed_entries(model));
  if (options.header.empty()) return print(text);
  write_file_whole(options.header, text);
}

}  // namespace nacre::tools
