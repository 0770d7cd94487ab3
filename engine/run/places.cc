#include "engine/run/places.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "engine/ops/parameters.h"
#include "engine/run/pass.h"

namespace nacre {
namespace {

// Stands before each call of a program that is bound to places.
struct PlacedCall {
  const Port* port;          // that runs the step; null: the host
  const KernelEntry* entry;  // null: not bound yet
  std::byte* scratch;        // in the memory that the port sees
  size_t scratch_bytes;
  size_t segment;  // steps of one segment follow each other and have one number
  size_t bytes;    // of the call
};
static_assert(sizeof(PlacedCall) % sizeof(Tensor) == 0);

PlacedCall* placed(Call* call) { return reinterpret_cast<PlacedCall*>(call) - 1; }
const PlacedCall* placed(const Call* call) { return reinterpret_cast<const PlacedCall*>(call) - 1; }
template <class C>
C* next(C* call) {
  using Byte = std::conditional_t<std::is_const_v<C>, const std::byte, std::byte>;
  return reinterpret_cast<C*>(reinterpret_cast<Byte*>(call) + placed(call)->bytes + sizeof(PlacedCall));
}

bool is_power_of_two(uint32_t n) { return n != 0 && (n & (n - 1)) == 0; }

bool is_whole(const Port& port) {
  return port.set != nullptr && (port.begin == nullptr) == (port.finish == nullptr) &&
         (port.copy == nullptr) == (port.fill == nullptr) && is_power_of_two(port.alignment) &&
         port.alignment >= kAlignment && port.alignment <= Places::kMaxAlignment &&
         port.tail_bytes <= Places::kMaxTailBytes;
}

// The block that a program may write but must not lose: `update` writes the state; of the others each may write
// streams.
constexpr uint32_t kept_block(Entry entry) { return entry == Entry::kUpdate ? uint32_t(kState) : uint32_t(kStream); }

uint64_t kept_bytes(const Model& model, Entry entry) {
  return entry == Entry::kDerive ? 0 : model.region_bytes(entry == Entry::kUpdate ? Region::kState : Region::kStream);
}

// Bytes of a tensor that a run of so many rows uses; 0: of the compiled batch.
size_t bytes_of_rows(const TensorRecord& r, uint32_t rows) {
  if (rows == 0 || (r.flags & kBatched) == 0) return size_t(r.bytes);
  uint64_t elements = rows;
  for (int axis = 1; axis < r.rank; ++axis) elements *= uint64_t(r.dims[axis]);
  return size_t(storage_bytes(r.element, elements));
}

const TensorRecord& root_of(const Model& model, const TensorRecord& r) {
  return r.alias_of == kNoIndex ? r : model.tensors()[r.alias_of];
}

}  // namespace

const PlaceFunctions Places::kFunctions = {.measure = measure, .bind = bind, .run = run, .unbind = unbind, .sum = sum};

struct Places::Rules {
  static constexpr uint32_t kTensorsBefore = sizeof(PlacedCall) / sizeof(Tensor);
  Places& places;

  uint32_t alignment() const { return places.alignment_; }
  Status start(const Model& model, const ProgramView& view, bool binding) const {
    return places.start(model, view, binding);
  }
  Code find(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found) const {
    return places.find(step, kernels, found);
  }
  void tell(Sizes* sizes) const { places.tell(sizes); }
  Status take(Program& program, std::span<std::byte> calls) const { return places.take(program, calls); }
  Code write(const Args& args, const LoadedStep& step, const KernelEntry& entry, Call* call) const {
    return places.write(args, step, entry, call);
  }
};

Status Places::measure(Places& places, const Model& model, uint32_t program, std::span<const KernelSet* const> kernels,
                       Sizes* sizes, const Machine& machine) {
  return Program::measure_with(Rules{places}, model, program, kernels, sizes, machine);
}

Status Places::bind(Places& places, Program* bound, const Model& model, uint32_t program,
                    std::span<const KernelSet* const> kernels, const Memory& memory, const Workers* workers) {
  return bound->bind_with(Rules{places}, model, program, kernels, memory, workers);
}

Places::Places(std::span<const Port* const> ports) : functions_(&kFunctions), ports_(ports) {}

Status Places::give(uint32_t place, std::span<std::byte> memory) {
  if (place >= kMaxPlaces || !apart(place)) return {Code::kPort, Table::kPort, place};
  places_[place].memory = memory;
  places_[place].taken = 0;
  return {};
}

// ---- Binding ----

uint64_t Places::padded(uint32_t place, uint64_t bytes) const {
  return round_up(bytes + port_at(place)->tail_bytes, port_at(place)->alignment);
}

uint64_t Places::block_bytes(uint32_t block) const {
  if (block >= kArena) return block - kArena < view_.banks.size() ? view_.banks[block - kArena] : 0;
  return model_->region_bytes(Region(uint32_t(Region::kState) + block - kState));
}

// A part: mirrors of the blocks in their order, scratch, weights in the order of the steps.
uint64_t Places::mirror(uint32_t place, uint32_t block) const {
  uint64_t offset = 0;
  for (uint32_t i = kState; i < block; ++i)
    if ((places_[place].blocks >> (i - kState) & 1) != 0) offset += padded(place, block_bytes(i));
  return offset;
}

uint64_t Places::weights_offset(uint32_t place) const {
  const uint64_t scratch = places_[place].scratch;
  return mirror(place, kBlockCount) + (scratch == 0 ? 0 : padded(place, scratch));
}

Status Places::start(const Model& model, const ProgramView& view, bool binding) {
  if (!binding) {
    if (ports_.size() > kMaxPlaces) return {Code::kPort, Table::kPort, kMaxPlaces};
    for (uint32_t i = 0; i < ports_.size(); ++i)
      if (port_at(i) != nullptr && !is_whole(*port_at(i))) return {Code::kPort, Table::kPort, i};
    for (Place& place : places_) place.needed = place.scratch = place.blocks = 0;
  }
  for (Place& place : places_) place.weights = 0;
  binding_ = binding;
  model_ = &model;
  view_ = view;
  segment_ = 0;
  before_ = nullptr;
  return {};
}

Code Places::find(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found) {
  const uint32_t at = step.record.place;
  Code code = Code::kNoKernel;
  if (const Port* port = port_at(at); port != nullptr) code = find_entry(step, {&port->set, 1}, found);
  current_ = code == Code::kOk ? at : kMaxPlaces;
  if (code != Code::kOk) {
    const Code behind = find_entry(step, kernels, found);
    if (behind != Code::kOk) return code == Code::kNoKernel ? behind : code;
  }
  if (!binding_ && apart(current_)) count(step, **found);
  return Code::kOk;
}

void Places::count(const LoadedStep& step, const KernelEntry& entry) {
  Place& place = places_[current_];
  place.scratch = std::max(place.scratch, scratch_bytes(entry, step.words, step.operands));
  for (uint32_t i = 0; i < step.tensor_count(); ++i) {
    const uint32_t id = step.tensor_id(i);
    if (id == kNoOperand) continue;
    const TensorRecord& r = step.model.tensors()[id];
    if (r.region == Region::kWeights) place.weights += padded(current_, r.bytes);
    else place.blocks = uint16_t(place.blocks | 1u << (locate(step.model, id).block - kState));
  }
}

void Places::tell(Sizes* sizes) {
  sizes->bytes[kCalls] += round_up(kept_bytes(*model_, view_.entry), kAlignment);
  uint32_t tail = 0;
  alignment_ = kAlignment;
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    const Port* const port = port_at(i);
    Place& place = places_[i];
    if (apart(i)) {
      const bool used = place.blocks != 0 || place.weights != 0 || place.scratch != 0;
      place.needed = used ? weights_offset(i) + place.weights : 0;
    } else if (port != nullptr) {
      alignment_ = std::max(alignment_, port->alignment);
      tail = std::max(tail, port->tail_bytes);
    }
  }
  for (uint32_t block = kState; block < kBlockCount; ++block)
    if (sizes->bytes[block] != 0) sizes->bytes[block] += tail;
}

Status Places::take(Program& program, std::span<std::byte> calls) {
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    Place& place = places_[i];
    if (place.needed == 0) continue;
    const size_t left = place.memory.data() == nullptr ? 0 : place.memory.size() - place.taken;
    if (left < place.needed) return {Code::kMemorySize, Table::kPort, i, place.needed, left};
    place.part = place.memory.data() + place.taken;
    const uintptr_t misaligned = reinterpret_cast<uintptr_t>(place.part) % port_at(i)->alignment;
    if (misaligned != 0) return {Code::kMemoryAlignment, Table::kPort, i, port_at(i)->alignment, misaligned};
    for (uint32_t block = kState; block < kBlockCount; ++block) {
      if ((place.blocks >> (block - kState) & 1) == 0) continue;
      const uint64_t bytes = block_bytes(block);
      if (!fill_tail(i, place.part + mirror(i, block), bytes)) return {Code::kPortFailed, Table::kPort, i};
    }
  }
  for (Place& place : places_) place.taken += size_t(place.needed);
  const uint64_t kept = round_up(kept_bytes(*model_, view_.entry), kAlignment);
  std::memset(calls.data(), 0, calls.size());  // no step is bound yet
  program.calls_ = reinterpret_cast<Call*>(calls.data() + kept + sizeof(PlacedCall));
  program.places_ = this;
  return {};
}

// Kernels may read the bytes behind a tensor: they have a value, on every run the same.
bool Places::fill_tail(uint32_t place, std::byte* at, uint64_t bytes) const {
  const uint64_t tail = padded(place, bytes) - bytes;
  if (port_at(place)->tail_bytes == 0 || tail == 0) return true;
  return port_at(place)->fill(port_at(place)->context, at + bytes, std::byte{0}, size_t(tail)) == Code::kOk;
}

Code Places::write(Args args, const LoadedStep& step, const KernelEntry& entry, Call* call) {
  const Port* const port = port_at(current_);
  if (port != before_) ++segment_;
  before_ = port;
  if (apart(current_)) {
    TRY_CODE(relocate(step, call));
    const Place& place = places_[current_];
    args.scratch = {place.part + mirror(current_, kBlockCount), size_t(place.scratch)};
  }
  *placed(call) = {
      port, nullptr, args.scratch.data(), args.scratch.size(), segment_, size_t(call_bytes(step.tensor_count()))};
  if (port != nullptr) args.context = port->context;
  TRY_CODE(prepare_step(entry, args));
  placed(call)->entry = &entry;
  return Code::kOk;
}

// From the host's memory to the port's, where its weights go now.
Code Places::relocate(const LoadedStep& step, Call* call) {
  Place& place = places_[current_];
  const Port& to = *port_at(current_);
  for (uint32_t i = 0; i < step.tensor_count(); ++i) {
    Tensor& tensor = call->operands()[i];
    if (tensor.record == nullptr) continue;
    const auto bytes = size_t(tensor.record->bytes);
    if (tensor.record->region == Region::kWeights) {
      std::byte* const at = place.part + weights_offset(current_) + place.weights;
      place.weights += padded(current_, bytes);
      const bool done = to.copy(to.context, CopyDirection::kToPort, at, tensor.data, bytes) == Code::kOk;
      if (!done || !fill_tail(current_, at, bytes)) return Code::kPortFailed;
      tensor.data = at;
    } else {
      const Location home = locate(step.model, step.tensor_id(i));
      tensor.data = place.part + mirror(current_, home.block) + home.offset;
    }
  }
  return Code::kOk;
}

// Reads nothing of the model, which may be gone.
void Places::unbind(Program& program) {
  Call* call = program.calls_;
  for (uint32_t i = 0; i < program.view_.step_count && placed(call)->entry != nullptr; ++i, call = next(call)) {
    const Preparation* const made = placed(call)->entry->preparation;
    const Port* const port = placed(call)->port;
    if (made != nullptr && made->release != nullptr)
      made->release(port == nullptr ? nullptr : port->context, call->prepared);
  }
}

void Places::sum(Places& self, bool first) {
  for (uint32_t i = 0; i < kMaxPlaces; ++i) {
    self.sums_[i] = first ? 0 : self.sums_[i] + self.places_[i].needed;
    self.places_[i].needed = self.sums_[i];
  }
}

// ---- Running ----

struct Places::Run {
  const Program& program;
  uint32_t rows;

  const Model& model() const { return *program.model_; }
  Status failed(uint32_t step, Code code = Code::kPortFailed) const {
    return {code, Table::kStep, program.view_.first_step + step};
  }

  // Steps [first, last).
  Status segments(uint32_t first, uint32_t last) const {
    const Call* call = program.calls_;
    for (uint32_t i = 0; i < first; ++i) call = next(call);
    while (first < last) {
      const Call* behind = call;
      uint32_t end = first;
      for (; end < last && placed(behind)->segment == placed(call)->segment; ++end) behind = next(behind);
      TRY(segment(call, first, end));
      call = behind;
      first = end;
    }
    return {};
  }

  // Steps [first, end), which run on one port or on the host.
  Status segment(const Call* call, uint32_t first, uint32_t end) const {
    const Port* const port = placed(call)->port;
    if (port == nullptr) return steps(call, nullptr, first, end);
    if (port->begin != nullptr && port->begin(port->context) != Code::kOk) return failed(first);
    Status status = copies(call, *port, CopyDirection::kToPort, first, end);
    if (status.ok()) status = steps(call, port, first, end);
    if (status.ok()) status = copies(call, *port, CopyDirection::kFromPort, first, end);
    const bool finished = port->finish == nullptr || port->finish(port->context) == Code::kOk;
    return status.ok() && !finished ? failed(first) : status;
  }

  Status steps(const Call* call, const Port* port, uint32_t first, uint32_t end) const {
    for (uint32_t i = first; i < end; ++i, call = next(call)) {
      const StepRecord& step = *call->step;
      if (step.guard != kNoIndex) {
        uint32_t word = 0;
        const void* const guard = call->operands()[step.operand_count].data;
        if (port == nullptr || port->copy == nullptr) std::memcpy(&word, guard, sizeof word);
        else if (port->copy(port->context, CopyDirection::kFromPort, &word, guard, sizeof word) != Code::kOk)
          return failed(i);
        if (word == 0) continue;
      }
      const std::span<std::byte> scratch = {placed(call)->scratch, placed(call)->scratch_bytes};
      void* const context = port == nullptr ? nullptr : port->context;
      const Code code = call->run({*call, model().words(step), int(rows), scratch, program.workers_, context});
      if (code != Code::kOk) return failed(i, code);
    }
    return {};
  }

  // Into the port's memory what the segment reads and has not made; out of it what it wrote and somebody may read.
  Status copies(const Call* call, const Port& port, CopyDirection direction, uint32_t first, uint32_t end) const {
    if (port.copy == nullptr) return {};
    for (uint32_t i = first; i < end; ++i, call = next(call)) {
      const StepRecord& step = *call->step;
      const uint32_t* ids = model().operands(step);
      for (uint32_t k = 0; k < uint32_t{step.operand_count} + (step.guard != kNoIndex); ++k) {
        const uint32_t word = k < step.operand_count ? ids[k] : step.guard, id = word & kOperandIdMask;
        const Tensor& tensor = call->operands()[k];
        if (tensor.record == nullptr || tensor.record->region == Region::kWeights) continue;
        const auto role = Role(word >> 30);
        const bool out = direction == CopyDirection::kFromPort;
        if (out ? !leaves(role, *tensor.record, end) : !enters(role, *tensor.record, step, first)) continue;
        std::byte* const home = program.bytes(id).data();
        const size_t bytes = bytes_of_rows(*tensor.record, rows);
        const Code code = out ? port.copy(port.context, direction, home, tensor.data, bytes)
                              : port.copy(port.context, direction, tensor.data, home, bytes);
        if (code != Code::kOk) return failed(i);
      }
    }
    return {};
  }

  // Whether an operand must be there before the segment that begins with step `first`. What a step with a guard may
  // leave as it is is there too.
  bool enters(Role role, const TensorRecord& r, const StepRecord& step, uint32_t first) const {
    if (role == Role::kOut) return step.guard != kNoIndex;
    const TensorRecord& root = root_of(model(), r);
    return r.region != Region::kArena || (root.flags & kInput) != 0 || root.first_step < first;
  }

  // Whether an operand must be back on the host behind a segment that ends before step `end`.
  bool leaves(Role role, const TensorRecord& r, uint32_t end) const {
    if (role == Role::kIn) return false;
    const TensorRecord& root = root_of(model(), r);
    bool needed = r.region != Region::kArena || root.last_step >= end;
    for (const uint32_t id : program.view_.outputs) needed |= &root_of(model(), model().tensors()[id]) == &root;
    return needed;
  }
};

Status Places::run(const Program& program, uint32_t first, uint32_t last, uint32_t rows) {
  const Entry entry = program.view_.entry;
  const auto bytes = size_t(kept_bytes(*program.model_, entry));
  std::byte* const block = program.region_[kept_block(entry) - kState];
  std::byte* const kept = reinterpret_cast<std::byte*>(placed(program.calls_)) - round_up(bytes, kAlignment);
  if (bytes != 0) std::memcpy(kept, block, bytes);
  const Status status = Run{program, rows}.segments(first, last);
  if (!status.ok() && bytes != 0) std::memcpy(block, kept, bytes);
  return status;
}

}  // namespace nacre
