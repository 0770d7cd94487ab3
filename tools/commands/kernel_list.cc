#include "tools/commands/kernel_list.h"

#include <fmt/format.h>

#include "tools/base/json.h"
#include "tools/base/names.h"
#include "tools/base/print.h"
#include "tools/base/table.h"
#include "tools/graph/layouts.h"
#include "tools/model/kernel_choice.h"

namespace nacre::tools {
namespace {

// Returns "int8, int8 panels16, int32? -> int8". "?": optional, "...": any number, "&": read and written.
std::string operands_text(const KernelEntry& entry) {
  std::string in, out;
  for (int i = 0; i < entry.operand_count; ++i) {
    const OperandType& type = entry.operands[i];
    const bool written = (type.role & 3) == uint8_t(Role::kOut);
    std::string& list = written ? out : in;
    if (!list.empty()) list += ", ";
    if ((type.role & 3) == uint8_t(Role::kUpdate)) list += "&";
    list += name_of(type.element);
    if (type.layout != Layout::kRowMajor && type.layout != Layout::kAny) list += " " + layout_name(type.layout);
    if ((type.role & kOptional) != 0) list += "?";
    if ((type.role & kVariadic) != 0) list += "...";
  }
  return in + (out.empty() ? "" : " -> " + out);
}

void list_sets(bool json) {
  const std::string best = best_set();
  Table table({{"set"}, {"kernels", Align::kRight}, {"runs here"}, {""}});
  Json sets = Json::array();
  for (const std::string& set : kernel_sets_listed()) {
    const size_t count = kernels_of_set(set).size();
    const bool here = set_runs_here(set);
    table.add({set, fmt::format("{}", count), here ? "yes" : "no", set == best ? "auto" : ""});
    sets.push_back({{"set", set}, {"kernels", count}, {"runs_here", here}, {"auto", set == best}});
  }
  if (json) return print_json({{"sets", sets}});
  print(table.text(terminal_width()));
  print("What a set lacks, the reference runs. nacre kernels --set NAME lists one.\n");
}

}  // namespace

void list_kernels(const std::string& set, bool json) {
  if (set.empty()) return list_sets(json);
  Table table({{"op"}, {"kernel"}, {"operands", Align::kLeft, 30}});
  Json list = Json::array();
  for (const ListedKernel& kernel : kernels_of_set(set)) {
    const std::string op = find_rule(kernel.entry->op)->name, operands = operands_text(*kernel.entry);
    table.add({op, kernel.name, operands});
    list.push_back({{"op", op}, {"kernel", kernel.name}, {"operands", operands}});
  }
  if (json) return print_json({{"set", set}, {"kernels", list}});
  print(table.text(terminal_width()));
}

}  // namespace nacre::tools
