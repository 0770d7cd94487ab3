#include "tools/evaluate/flash.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

namespace nacre::tools {
namespace {

constexpr std::string_view kTargets[] = {"arm/m0plus", "arm/m3",  "arm/m4",         "arm/m7",
                                         "arm/m33",    "arm/m55", "riscv/rv32imac", "riscv/rv32imafc"};

struct KernelText {
  std::string_view name;              // "reference::ready::kDenseI8Double"; "run": the code that runs the calls
  uint16_t own[std::size(kTargets)];  // bytes that only it links, for each target
  std::string_view parts;             // indices in kParts, separated by blanks; "4-6": 4, 5 and 6
};

#include "tools/evaluate/kernel_text.inc"

std::optional<size_t> column_of(std::string_view target) {
  const auto* found = std::ranges::find(kTargets, target);
  return found == std::end(kTargets) ? std::nullopt : std::optional(size_t(found - std::begin(kTargets)));
}

const KernelText* find_text(std::string_view name) {
  const auto* found = std::ranges::lower_bound(kKernels, name, {}, &KernelText::name);
  return found != std::end(kKernels) && found->name == name ? found : nullptr;
}

// Sums the code that a linker keeps of the added kernels, for the target of a column. Counts shared parts once.
class LinkedText {
 public:
  explicit LinkedText(size_t column) : column_(column) {}
  bool add(std::string_view name) {
    const KernelText* const text = find_text(name);
    if (text == nullptr || !names_.insert(name).second) return text != nullptr;
    bytes_ += text->own[column_];
    for (std::string_view left = text->parts; !left.empty();) {
      const size_t first = take_number(left);
      const size_t last = left.starts_with('-') ? (left.remove_prefix(1), take_number(left)) : first;
      for (size_t part = first; part <= last; ++part)
        if (parts_.insert(part).second) bytes_ += kParts[part][column_];
      if (!left.empty()) left.remove_prefix(1);
    }
    return true;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  static size_t take_number(std::string_view& text) {
    size_t number = 0;
    const char* const end = std::from_chars(text.data(), text.data() + text.size(), number).ptr;
    text.remove_prefix(size_t(end - text.data()));
    return number;
  }

  size_t column_;
  std::set<std::string_view> names_;
  std::set<size_t> parts_;
  uint64_t bytes_ = 0;
};

}  // namespace

std::optional<StaticFlash> static_flash(const StaticTables& tables, const TargetMachine& machine) {
  const std::optional<size_t> column = column_of(machine.name);
  if (!column) return {};
  LinkedText text(*column);
  bool known = text.add("run");
  for (const auto& [entry, program] : tables.programs)
    for (const StaticTables::BoundStep& call : program.calls) known &= text.add(call.function);
  if (!known) return {};
  return StaticFlash{text.bytes(), tables.table_bytes(machine), tables.block_bytes[StaticTables::kWeightsBlock]};
}

std::optional<uint64_t> kernel_text(std::string_view function, std::string_view target) {
  const std::optional<size_t> column = column_of(target);
  if (!column) return {};
  LinkedText text(*column);
  return text.add(function) ? std::optional(text.bytes()) : std::nullopt;
}

}  // namespace nacre::tools
