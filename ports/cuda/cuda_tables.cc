#include "ports/cuda/cuda_tables.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "engine/kernels/training.h"

namespace nacre::cuda {
namespace {

constexpr const char* kNames[] = {
#define NACRE_ENTRY(name, ...) #name,
#include "engine/kernels/reference/all.inc"
#include "engine/kernels/training/all.inc"
};
constexpr size_t kEntries = std::size(kNames);
constexpr const char* kAroundProducts[] = {
#include "ports/cuda/product_kernels.inc"
};

constexpr const char* kOfSums[] = {
#include "ports/cuda/sum_kernels.inc"
};

constexpr std::string_view kMany[] = {
#include "ports/cuda/many_entries.inc"
};

constexpr const char* kTurned[] = {
#include "ports/cuda/turned_kernels.inc"
#undef NACRE_ENTRY
};

bool fits(const Words& words, const Operands& operands) {
  return words.count <= kMostWords && operands.count <= kMostOperands;
}

}  // namespace

Device::Tables::Tables() {
  kernels = Device::enqueuers(std::make_index_sequence<kEntries>());
  preparations = Device::preparations(std::make_index_sequence<kMostOperands + 1>());
  std::vector<reference::NamedEntry> named;
  for (const auto& entries_of : {reference::list(), reference::training_list()})
    named.insert(named.end(), entries_of.begin(), entries_of.end());
  std::ranges::stable_sort(named, {}, [](const reference::NamedEntry& e) { return e.entry->op; });
  for (const auto& [name, entry] : named) {
    KernelEntry& made = entries.emplace_back(*entry);
    made.run = kernels[names.size()];
    made.accepts = &fits;
    made.preparation = &preparations[size_t(image_operands(entry->operands, entry->operand_count))];
    names.push_back(name);
  }
  for (const KernelEntry& entry : entries) list.push_back(&entry);
  set = {"cuda", list};
  with_products = entries;
  const auto scratch = Device::scratches<false>(std::make_index_sequence<kEntries>());
  const auto with = Device::scratches<true>(std::make_index_sequence<kEntries>());
  for (size_t i = 0; i < entries.size(); ++i) {
    own_scratch.push_back(std::exchange(entries[i].scratch_bytes, scratch[i]));
    with_products[i].scratch_bytes = with[i];
    threads.push_back(&find_rule(entries[i].op)->threads);
    runs_many.push_back(own_scratch[i] == nullptr && threads[i]->phases == 1 &&
                        std::ranges::find(kMany, names[i]) != std::end(kMany));
  }
  for (const KernelEntry& entry : with_products) list_with_products.push_back(&entry);
  set_with_products = {"cuda", list_with_products};
}

const Device::Tables& Device::tables() {
  static const Tables tables;
  return tables;
}

size_t Device::kernel_count() {
  return kEntries + std::size(kAroundProducts) + std::size(kOfSums) + std::size(kMany) + 2 * std::size(kTurned);
}

const char* Device::name_of(Kernel kernel) {
  const auto& kernels = tables().kernels;
  const auto index = size_t(std::ranges::find(kernels, kernel) - kernels.begin());
  return index < tables().names.size() ? tables().names[index] : nullptr;
}

template <size_t kIndex>
Code Device::enqueue_entry(const Args& args) {
  return static_cast<Device*>(args.context)->enqueue(kIndex, args);
}

template <size_t... kIndex>
std::vector<Kernel> Device::enqueuers(std::index_sequence<kIndex...>) {
  return {enqueue_entry<kIndex>...};
}

// Returns the most scratch that the kernel, its phases and a product need. Not inlined, because a thousand instances
// call it.
[[gnu::noinline]] size_t Device::scratch_of_entry(size_t index, bool with_products, const Words& words,
                                                  const Operands& operands) {
  const KernelEntry& entry = tables().entries[index];
  const size_t own = tables().own_scratch[index] != nullptr ? tables().own_scratch[index](words, operands) : 0;
  const auto parts_of = tables().threads[index]->parts;
  const size_t parts = parts_of != nullptr ? size_t(parts_of(operands)) * sizeof(double) : 0;
  return std::max({own, parts, with_products ? product_scratch(entry, words, operands) : 0});
}

template <size_t kIndex, bool kProducts>
size_t Device::scratch_bytes(const Words& words, const Operands& operands) {
  return scratch_of_entry(kIndex, kProducts, words, operands);
}

template <bool kProducts, size_t... kIndex>
std::vector<Device::ScratchOf> Device::scratches(std::index_sequence<kIndex...>) {
  return {scratch_bytes<kIndex, kProducts>...};
}

template <int kCount>
Code Device::prepare_image(const Args& args) {
  return static_cast<Device*>(args.context)->prepare(args, kCount, static_cast<StepHead*>(args.call.prepared));
}

template <size_t... kCount>
std::vector<Preparation> Device::preparations(std::index_sequence<kCount...>) {
  return {
      Preparation{.bytes = [](const Words&, const Operands&) { return sizeof(StepImage<int(kCount) + (kCount == 0)>); },
                  .prepare = prepare_image<int(kCount)>,
                  .release = nullptr}...};
}

}  // namespace nacre::cuda
