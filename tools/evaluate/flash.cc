#include "tools/evaluate/flash.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

namespace nacre::tools {
namespace {

struct KernelText {
  std::string_view name;   // "reference::ready::kDenseI8Double"; "run": what runs the calls
  uint32_t own;            // bytes that it alone links
  std::string_view parts;  // indices in kParts, a blank between them
};

#include "tools/evaluate/kernel_text_m4.inc"

const KernelText* find_text(std::string_view name) {
  const auto* found = std::ranges::lower_bound(kKernels, name, {}, &KernelText::name);
  return found != std::end(kKernels) && found->name == name ? found : nullptr;
}

// What a linker keeps of kernels: each part once.
class LinkedText {
 public:
  bool add(std::string_view name) {
    const KernelText* const text = find_text(name);
    if (text == nullptr || !names_.insert(name).second) return text != nullptr;
    bytes_ += text->own;
    for (std::string_view left = text->parts; !left.empty();) {
      size_t part = 0;
      const char* const end = std::from_chars(left.data(), left.data() + left.size(), part).ptr;
      if (parts_.insert(part).second) bytes_ += kParts[part];
      left.remove_prefix(size_t(end - left.data()));
      if (!left.empty()) left.remove_prefix(1);
    }
    return true;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  std::set<std::string_view> names_;
  std::set<size_t> parts_;
  uint64_t bytes_ = 0;
};

}  // namespace

namespace {

// What StaticTables::table_bytes leaves out, of 32 bits: a nacre_static_program and the spans of its inputs and outputs
// each, and the blocks that all share.
uint64_t program_bytes(const StaticTables& tables) {
  constexpr uint64_t kProgram = 80, kSpan = 8;
  uint64_t bytes = kSpan * (tables.block_bytes.size() + tables.ops.size());
  for (const auto& [entry, program] : tables.programs)
    bytes += kProgram + kSpan * (program.inputs.size() + program.outputs.size());
  return bytes;
}

}  // namespace

std::optional<StaticFlash> static_flash(const StaticTables& tables, const TargetMachine& machine) {
  if (std::string_view(machine.name) != "arm/m4") return {};
  LinkedText text;
  bool known = text.add("run");
  for (const auto& [entry, program] : tables.programs)
    for (const StaticTables::BoundStep& call : program.calls) known &= text.add(call.function);
  if (!known) return {};
  return StaticFlash{text.bytes(), tables.table_bytes() + program_bytes(tables),
                     tables.block_bytes[StaticTables::kWeightsBlock]};
}

std::optional<uint64_t> kernel_text(std::string_view function) {
  LinkedText text;
  return text.add(function) ? std::optional(text.bytes()) : std::nullopt;
}

}  // namespace nacre::tools
