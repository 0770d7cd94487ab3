#include "tools/model/kernel_choice.h"

#include <fmt/format.h>

#include <cctype>
#include <map>
#include <optional>
#include <string_view>

#include "engine/kernels/training.h"
#include "ports/x86/x86.h"
#include "tools/base/error.h"
#ifdef NACRE_XNNPACK
#include "ports/xnnpack/xnnpack_port.h"
#endif

namespace nacre::tools {

std::vector<std::string> kernel_choices() {
  std::vector<std::string> names = {"auto", "reference"};
  for (uint32_t i = 0; i < uint32_t(x86::Tier::kCount); ++i) names.emplace_back(x86::name(x86::Tier(i)));
#ifdef NACRE_XNNPACK
  names.emplace_back("xnnpack");
#endif
  return names;
}

std::vector<std::string> kernel_sets_listed() {
  std::vector<std::string> names = kernel_choices();
  names[0] = "reference", names[1] = "training";
  return names;
}

namespace {

constexpr std::string_view kPrefix = "x86/";

std::optional<x86::Tier> tier_named(const std::string& name) {
  for (uint32_t i = 0; i < uint32_t(x86::Tier::kCount); ++i)
    if (name == x86::name(x86::Tier(i))) return x86::Tier(i);
  return std::nullopt;
}

// "kDepthwiseConv2dI8Double" -> "depthwise_conv2d_i8_double".
std::string in_words(const char* name) {
  std::string words;
  for (const char* c = name + 1; *c != 0; ++c) {
    const bool upper = std::isupper(static_cast<unsigned char>(*c)) != 0;
    if (upper && c > name + 1) words += '_';
    words += char(std::tolower(static_cast<unsigned char>(*c)));
  }
  return words;
}

}  // namespace

std::vector<ListedKernel> kernels_of_set(const std::string& set) {
  const std::optional<x86::Tier> tier = tier_named(set);
  std::vector<ListedKernel> kernels;
#ifdef NACRE_XNNPACK
  if (set == "xnnpack") {
    for (const reference::NamedEntry& named : xnnpack::list()) kernels.push_back({in_words(named.name), named.entry});
    return kernels;
  }
#endif
  for (const reference::NamedEntry& named : tier                ? x86::list(*tier)
                                            : set == "training" ? reference::training_list()
                                                                : reference::list())
    kernels.push_back({in_words(named.name), named.entry});
  return kernels;
}

bool set_runs_here(const std::string& set) {
  const std::optional<x86::Tier> tier = tier_named(set);
  return !tier || x86::runs_here(*tier);
}

const Port* port_named(const std::string& choice) {
  if (choice == "reference") return nullptr;
#ifdef NACRE_XNNPACK
  if (choice == "xnnpack") {
    if (const Port* const port = xnnpack::port(); port != nullptr) return port;
    throw Error(kUnsupported, "--kernels xnnpack", "the library does not run on this processor", "leave it away");
  }
#endif
  const std::optional<x86::Tier> tier = choice == "auto" ? x86::best() : tier_named(choice);
  if (!tier) throw Error(kUsage, "--kernels " + choice, "is no set of kernels", "nacre kernels lists them");
  if (!x86::runs_here(*tier))
    throw Error(kUnsupported, "--kernels " + choice, "this processor does not have its instructions",
                fmt::format("leave it away: {} is the fastest here", x86::name(x86::best())));
  return &x86::port(*tier);
}

std::vector<const KernelSet*> kernels_of_target(const std::string& target) {
  std::vector<const KernelSet*> sets;
  if (target.starts_with(kPrefix))
    if (const auto tier = tier_named(target.substr(kPrefix.size()))) sets.push_back(&x86::kernels(*tier));
  sets.insert(sets.end(), {&reference::kernels(), &reference::training_kernels()});
  return sets;
}

const Port* port_for(const std::string& choice, const std::string& target) {
  if (!target.starts_with(kPrefix)) return port_named(choice);
  const std::string tier(target.substr(kPrefix.size()));
  if (choice != "auto" && choice != tier)
    throw Error(kUsage, "--kernels " + choice, "the program is compiled for " + target,
                "leave it away, or convert the network with --target host");
  return port_named(tier);
}

const Port* port_for_target(const std::string& target) {
  return target.starts_with(kPrefix) ? port_for("auto", target) : nullptr;
}

std::string name_of_kernel(Kernel kernel) {
  static const std::map<Kernel, std::string> names = [] {
    std::map<Kernel, std::string> all;
    for (const std::string& set : kernel_sets_listed())
      for (const ListedKernel& listed : kernels_of_set(set))
        if (listed.entry->run != nullptr)
          all.try_emplace(listed.entry->run, (set == "training" ? "reference" : set) + "/" + listed.name);
    return all;
  }();
  const auto found = names.find(kernel);
  return found == names.end() ? "" : found->second;
}

std::string name_of_port(const Port* port) {
  if (port == nullptr) return "reference";
  const std::string_view name = port->name;
  return std::string(name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name);
}

}  // namespace nacre::tools
