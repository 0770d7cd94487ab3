// Describes a kernel of a list to C. The engine and the ports share it.
#pragma once

#include "engine/c_api.h"
#include "engine/kernels/reference.h"

namespace nacre {

inline nacre_status kernel_at(std::span<const reference::NamedEntry> list, uint32_t index, nacre_kernel_info* info) {
  if (const Status s = arguments(true, usable(info)); !s.ok()) return to_c(s);
  if (index >= list.size()) return to_c({Code::kNoName, Table::kNone, index});
  const KernelEntry& entry = *list[index].entry;
  const OpRule* const rule = find_rule(entry.op);
  nacre_kernel_info told = {};
  told.name = list[index].name;
  told.op = rule == nullptr ? "" : rule->name;
  told.kernel = reinterpret_cast<const void*>(entry.run);
  give(told, info);
  return {};
}

}  // namespace nacre
