#include "tests/guarded_step.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "engine/ops/pack.h"
#include "tools/graph/bound_step.h"

namespace nacre::test {
namespace {

constexpr uint8_t kPoison = 0xCD;

// A block of memory with `tail` more bytes after it, between two pages without access.
class Guarded {
 public:
  Guarded(size_t bytes, Beside beside, size_t tail) : bytes_(bytes) {
    const auto page = size_t(sysconf(_SC_PAGESIZE));
    const size_t inner = std::max(page, (bytes + tail + page - 1) / page * page);
    whole_ = inner + 2 * page;
    void* const at = mmap(nullptr, whole_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<uint8_t*>(at);
    mprotect(base_, page, PROT_NONE);
    mprotect(base_ + page + inner, page, PROT_NONE);
    data_ = beside == Beside::kFront ? base_ + page : base_ + page + inner - bytes - tail;
    std::memset(base_ + page, kPoison, inner);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  ~Guarded() { munmap(base_, whole_); }

  uint8_t* data() const { return data_; }
  size_t size() const { return bytes_; }

 private:
  uint8_t *base_ = nullptr, *data_ = nullptr;
  size_t bytes_, whole_ = 0;
};

std::vector<uint8_t> packed(const Array& array, Layout layout) {
  const TensorRecord record = record_of(array);
  const Shape shape = {record.rank, record.dims, 0};
  const size_t unit = element_bits(array.element) / 8;
  std::vector<uint8_t> bytes(size_t(stored_elements(layout, shape)) * unit);
  stored_matrices(layout, shape).each(of_channels(layout), [&](size_t index, size_t position) {
    std::memcpy(bytes.data() + position * unit, array.bytes.data() + index * unit, unit);
  });
  return bytes;
}

struct Step {
  std::vector<TensorRecord> records;
  std::vector<Tensor> tensors;
  std::vector<std::unique_ptr<Guarded>> memory;
  std::vector<std::vector<uint8_t>> given;  // of inputs
  size_t tail = 0;

  void add(const Array& array, Layout layout, Region region, Beside beside, int shared = -1) {
    given.emplace_back();
    memory.emplace_back();
    if (!array.present()) {
      tensors.push_back({nullptr, nullptr});
      return;
    }
    records.push_back(record_of(array));
    TensorRecord& record = records.back();
    record.region = region;
    if (shared >= 0) {
      tensors.push_back({tensors[size_t(shared)].data, &record});
      return;
    }
    const bool as_is = layout == Layout::kRowMajor || layout == Layout::kAny;
    given.back() = as_is ? array.bytes : packed(array, layout);
    record.bytes = given.back().size();
    if (!as_is) record.layout = layout;
    memory.back() = std::make_unique<Guarded>(given.back().size(), beside, region == Region::kWeights ? 0 : tail);
    if (!given.back().empty()) std::memcpy(memory.back()->data(), given.back().data(), given.back().size());
    tensors.push_back({memory.back()->data(), &record});
  }
};

}  // namespace

Execution execute_guarded(const KernelEntry& entry, const std::vector<uint32_t>& words,
                          const std::vector<Array>& inputs, Beside beside, bool constant, int in_place, size_t tail,
                          const Workers* workers) {
  const Words view = {words.data(), int(words.size())};
  const auto type = [&](size_t i) -> const OperandType& {
    return entry.operands[variadic(entry) ? (i < inputs.size() ? 0 : i - inputs.size() + 1) : i];
  };
  Step step;
  step.tail = tail;
  step.records.reserve(inputs.size() + 4);
  for (size_t i = 0; i < inputs.size(); ++i)
    step.add(inputs[i], type(i).layout, constant && i > 0 ? Region::kWeights : Region::kArena, beside);

  Execution result;
  Dims dims[4] = {};
  result.code = entry.shapes(view, {step.tensors.data(), int(step.tensors.size()), 0}, dims);
  if (result.code != Code::kOk) return result;
  const int outputs = int(entry.operand_count) - (variadic(entry) ? 1 : input_count(entry));
  for (int i = 0; i < outputs; ++i) {
    result.outputs.push_back(
        make_array(type(inputs.size() + size_t(i)).element, {dims[i].size, dims[i].size + dims[i].rank}));
    step.add(result.outputs.back(), Layout::kRowMajor, Region::kArena, beside, i == 0 ? in_place : -1);
    if (i > 0 || in_place < 0) std::memset(step.memory.back()->data(), kPoison, step.memory.back()->size());
  }
  const Operands operands = {step.tensors.data(), int(step.tensors.size()), 0};
  if (entry.accepts != nullptr && !entry.accepts(view, operands)) {
    result.code = Code::kNoKernel;
    return result;
  }
  tools::BoundStep bound(entry, view, step.tensors, workers);
  result.code = bound.prepare();
  if (result.code == Code::kOk) result.code = bound.run();
  for (int i = 0; i < outputs; ++i) {
    Array& array = result.outputs[size_t(i)];
    if (!array.bytes.empty())
      std::memcpy(array.bytes.data(), step.tensors[inputs.size() + size_t(i)].data, array.bytes.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].present()) continue;
    const bool same = std::memcmp(step.memory[i]->data(), step.given[i].data(), step.given[i].size()) == 0;
    if ((type(i).role & 3) == uint8_t(Role::kUpdate)) {
      result.updated.push_back(inputs[i]);
      std::memcpy(result.updated.back().bytes.data(), step.memory[i]->data(), inputs[i].bytes.size());
    } else if (int(i) != in_place && !same) {
      result.impure = true;
    }
  }
  result.overrun = bound.overran();
  return result;
}

}  // namespace nacre::test
