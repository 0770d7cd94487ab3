#include "ports/cuda/step_groups.h"

#include <algorithm>

#include "engine/run/find_entry.h"

namespace nacre::cuda {
namespace {

constexpr size_t kMostBack = 256;  // launches that are searched for one which a step can join

bool conflict(const Touched& a, const Touched& b) {
  return (a.writes || b.writes) && a.first < b.end && b.first < a.end;
}

bool conflict(const GroupedStep& a, const GroupedStep& b) {
  return std::ranges::any_of(a.touched, [&](const Touched& x) {
    return std::ranges::any_of(b.touched, [&](const Touched& y) { return conflict(x, y); });
  });
}

}  // namespace

std::vector<Touched> touched_by(const KernelEntry& entry, const StepHead& image) {
  const auto* const operand = reinterpret_cast<const StepOperand*>(&image + 1);
  std::vector<Touched> made;
  for (int i = 0; i < image.step.operand_count; ++i) {
    if (operand[i].record.element == ElementType::kNone) continue;
    const auto* const at = static_cast<const std::byte*>(operand[i].data);
    const auto role = Role(operand_type(entry, i, image.step.operand_count).role & 3);
    made.push_back({at, at + operand[i].record.bytes, role != Role::kIn});
  }
  if (image.guard != nullptr) {
    const auto* const at = reinterpret_cast<const std::byte*>(image.guard);
    made.push_back({at, at + sizeof *image.guard, false});
  }
  return made;
}

std::vector<std::vector<size_t>> groups_of(std::span<const GroupedStep> steps) {
  std::vector<std::vector<size_t>> groups;
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<size_t>* joined = nullptr;
    for (size_t back = 0; steps[i].joins && joined == nullptr && back < std::min(groups.size(), kMostBack); ++back) {
      std::vector<size_t>& group = groups[groups.size() - 1 - back];
      if (std::ranges::any_of(group, [&](size_t member) { return conflict(steps[member], steps[i]); })) break;
      if (const GroupedStep& first = steps[group.front()]; first.joins && first.kernel == steps[i].kernel)
        joined = &group;
    }
    if (joined == nullptr) joined = &groups.emplace_back();
    joined->push_back(i);
  }
  return groups;
}

}  // namespace nacre::cuda
