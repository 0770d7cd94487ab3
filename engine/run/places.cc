#include "engine/run/places.h"

#include <algorithm>
#include <cstring>

#include "engine/ops/parameters.h"
#include "engine/run/pass.h"
#include "engine/run/placed_call.h"

namespace nacre {
namespace {

bool is_power_of_two(uint32_t n) { return n != 0 && (n & (n - 1)) == 0; }

bool is_whole(const Port& port) {
  return port.set != nullptr && (port.begin == nullptr) == (port.finish == nullptr) &&
         (port.copy == nullptr) == (port.fill == nullptr) && (port.hold == nullptr) == (port.release == nullptr) &&
         is_power_of_two(port.alignment) && port.alignment >= kAlignment && port.alignment <= Places::kMaxAlignment &&
         port.tail_bytes <= Places::kMaxTailBytes;
}

// Returns the bytes of operand i as the kernel reads it. For a weight that is packed for the kernel, these are the
// bytes of the copy.
uint64_t bytes_for(const KernelEntry& entry, const LoadedStep& step, uint32_t i, const TensorRecord& r) {
  if (i >= step.record.operand_count) return r.bytes;
  const OperandType& type = operand_type(entry, int(i), step.record.operand_count);
  return packs(r, type) ? PackedWeights::bytes_of(r, type.layout) : size_t(r.bytes);
}

}  // namespace

const PlaceFunctions Places::kFunctions = {.measure = measure,
                                           .bind = bind,
                                           .run = run,
                                           .unbind = unbind,
                                           .training = {.sum = sum,
                                                        .share = share,
                                                        .changed = changed,
                                                        .bring_home = bring_home,
                                                        .bring_sums = bring_sums,
                                                        .sums_at = sums_at,
                                                        .wrote_sums_at = wrote_sums_at,
                                                        .holder = holder,
                                                        .hold = hold,
                                                        .release = release,
                                                        .take_back = take_back}};

struct Places::Picked {
  const Places& places;
  std::span<const KernelSet* const> kernels;

  const KernelEntry* operator()(const LoadedStep& step) const {
    const KernelEntry* entry = nullptr;
    uint32_t place = 0;
    return places.pick(step, kernels, &entry, &place) == Code::kOk ? entry : nullptr;
  }
};

struct Places::Rules {
  static constexpr uint32_t kTensorsBefore = sizeof(PlacedCall) / sizeof(Tensor);
  static constexpr bool kThreads = true;
  Places& places;

  uint32_t alignment() const { return places.alignment_; }
  template <class Pass>
  Status start(const Pass& pass, const ProgramView& view) const {
    return places.start(pass.model, view, pass.kernels, pass.bound != nullptr);
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
  places.program_ = program;
  return Program::measure_with(Rules{places}, model, program, kernels, sizes, machine);
}

Status Places::bind(Places& places, Program* bound, const Model& model, uint32_t program,
                    std::span<const KernelSet* const> kernels, const Memory& memory, const Workers* workers) {
  size_t taken[kMaxPlaces];
  for (uint32_t i = 0; i < kMaxPlaces; ++i) taken[i] = places.places_[i].taken;
  places.program_ = program;
  const Status s = bound->bind_with(Rules{places}, model, program, kernels, memory, workers);
  for (uint32_t i = 0; i < kMaxPlaces && !s.ok(); ++i) places.places_[i].taken = taken[i];  // returns the parts
  return s;
}

Places::Places(std::span<const Port* const> ports) : functions_(&kFunctions), ports_(ports) {}

Status Places::give(uint32_t place, std::span<std::byte> memory) {
  if (place >= kMaxPlaces || !apart(place)) return {Code::kPort, Table::kPort, place};
  places_[place].memory = memory;
  places_[place].taken = 0;
  places_[place].states = {};
  for (std::span<std::byte>& mirror : places_[place].mirror) mirror = {};
  return {};
}

// ---- Binding ----

uint64_t Places::padded(uint32_t place, uint64_t bytes) const {
  return round_up(bytes + port_at(place)->tail_bytes, port_at(place)->alignment);
}

uint64_t Places::block_bytes(uint32_t block) const {
  if (block >= kArena) return block - kArena < view_.banks.size() ? size_t(view_.banks[block - kArena]) : 0;
  return model_->region_bytes(Region(uint32_t(Region::kState) + block - kState));
}

// Returns the offset of a mirror, the device's copy of a host's block, in the part of a place's memory that a program
// takes. That part holds mirrors that are not shared, by block, then scratch, then the weights in the order of steps.
uint64_t Places::mirror(uint32_t place, uint32_t block) const {
  uint64_t offset = 0;
  for (uint32_t i = kState; i < block; ++i)
    if ((places_[place].blocks >> (i - kState) & 1) != 0 && !shares(place, i)) offset += padded(place, block_bytes(i));
  return offset;
}

uint64_t Places::shared_mirror(uint32_t place, uint32_t block) const {
  uint64_t offset = 0;
  for (uint32_t i = kState; i < block; ++i)
    if ((places_[place].shared >> (i - kState) & 1) != 0) offset += padded(place, block_bytes(i));
  return offset;
}

// Returns whether programs share the mirror: that of the state, the derived values or the step's sums, on a place that
// keeps its memory. Mirrors of the arena and of streams are not shared.
bool Places::shares(uint32_t place, uint32_t block) const {
  return sharing_ && places_[place].keeps && apart(place) &&
         (block == kState || block == kDerived || block == kStepSums);
}

std::byte* Places::mirror_at(uint32_t place, uint32_t block) const {
  return shares(place, block) ? places_[place].mirror[block - kState].data()
                              : places_[place].part + mirror(place, block);
}

uint64_t Places::weights_offset(uint32_t place) const {
  const uint64_t scratch = places_[place].scratch;
  return mirror(place, kBlockCount) + (scratch == 0 ? 0 : padded(place, scratch));
}

Status Places::start(const Model& model, const ProgramView& view, std::span<const KernelSet* const> kernels,
                     bool binding) {
  if (!binding) {
    if (ports_.size() > kMaxPlaces) return {Code::kPort, Table::kPort, kMaxPlaces};
    for (uint32_t i = 0; i < ports_.size(); ++i)
      if (port_at(i) != nullptr && !is_whole(*port_at(i))) return {Code::kPort, Table::kPort, i};
    for (Place& place : places_) place.needed = place.scratch = place.blocks = 0;
    alignment_ = kAlignment;
    for (uint32_t i = 0; i < ports_.size(); ++i)
      if (port_at(i) != nullptr && !apart(i)) alignment_ = std::max(alignment_, port_at(i)->alignment);
    packed_ = {};
    bool wanted = false;
    for (const Port* port : ports_) wanted |= port != nullptr && PackedWeights::reads_layouts(*port->set);
    for (const KernelSet* set : kernels) wanted |= PackedWeights::reads_layouts(*set);
    if (wanted) packed_.measure(model, program_, alignment_, Picked{*this, kernels});
  }
  for (Place& place : places_) place.weights = 0;
  binding_ = binding;
  model_ = &model;
  view_ = view;
  kernels_ = kernels;
  segment_ = 0;
  before_ = nullptr;
  return {};
}

// Finds the kernel entry for a step, and the place (index) of the port that has it; kMaxPlaces means the host.
Code Places::pick(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found,
                  uint32_t* place) const {
  Code refusal = Code::kNoKernel;  // refusal of the first port that has such a kernel
  for (const uint32_t at : {uint32_t{step.record.place}, uint32_t{0}}) {
    if (port_at(at) == nullptr) continue;
    *place = at;
    const Code code = find_packing_entry(step, {&port_at(at)->set, 1}, found);
    if (code == Code::kOk) return code;
    if (refusal == Code::kNoKernel) refusal = code;
  }
  *place = kMaxPlaces;
  const Code behind = find_packing_entry(step, kernels, found);
  return behind == Code::kOk || refusal == Code::kNoKernel ? behind : refusal;
}

Code Places::find(const LoadedStep& step, std::span<const KernelSet* const> kernels, const KernelEntry** found) {
  NACRE_TRY_CODE(pick(step, kernels, found, &current_));
  if (!binding_ && apart(current_)) count(step, **found);
  if (!binding_ && sharing_) tell_shared(step);
  return Code::kOk;
}

void Places::count(const LoadedStep& step, const KernelEntry& entry) {
  Place& place = places_[current_];
  place.scratch = std::max(place.scratch, scratch_bytes(entry, step.words, step.operands));
  for (uint32_t i = 0; i < step.tensor_count(); ++i) {
    const uint32_t id = step.tensor_id(i);
    if (id == kNoOperand) continue;
    const TensorRecord& r = step.model.tensors()[id];
    if (r.region == Region::kWeights) place.weights += padded(current_, bytes_for(entry, step, i, r));
    else place.blocks = uint16_t(place.blocks | 1u << (locate(step.model, id).block - kState));
  }
}

// Notes which shared blocks the current step uses: in `shared` of its own place (device), in `foreign` of the other
// places.
void Places::tell_shared(const LoadedStep& step) {
  for (uint32_t i = 0; i < step.tensor_count(); ++i) {
    const uint32_t id = step.tensor_id(i);
    if (id == kNoOperand || step.model.tensors()[id].region == Region::kWeights) continue;
    const uint32_t block = locate(step.model, id).block;
    const auto bit = uint16_t(1u << (block - kState));
    for (uint32_t place = 0; place < kMaxPlaces; ++place) {
      if (!shares(place, block)) continue;
      uint16_t& bits = place == current_ ? places_[place].shared : places_[place].foreign;
      bits = uint16_t(bits | bit);
    }
  }
}

uint64_t Places::kept_bytes(const Model& model, Entry entry) const {
  bool can_fail = false;
  for (const Port* port : ports_) can_fail |= port != nullptr && (port->begin != nullptr || port->copy != nullptr);
  if (!can_fail || entry == Entry::kDerive) return 0;
  return model.region_bytes(entry == Entry::kUpdate ? Region::kState : Region::kStream);
}

void Places::tell(Sizes* sizes) {
  sizes->bytes[kCalls] += round_up(kept_bytes(*model_, view_.entry), kAlignment);
  if (packed_.count != 0) sizes->bytes[kDerived] = packed_.end;
  uint32_t tail = 0;
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    const Port* const port = port_at(i);
    Place& place = places_[i];
    if (apart(i)) {
      const bool used = place.blocks != 0 || place.weights != 0 || place.scratch != 0;
      place.needed = used ? weights_offset(i) + place.weights : 0;
    } else if (port != nullptr) {
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
      if (!fill_tail(i, mirror_at(i, block), bytes)) return {Code::kPortFailed, Table::kPort, i};
    }
  }
  for (Place& place : places_) place.taken += size_t(place.needed);
  derived_ = program.region_[kDerived - kState];
  if (packed_.count != 0) packed_.pack(*model_, program_, alignment_, Picked{*this, kernels_}, derived_);
  const uint64_t kept = round_up(kept_bytes(*model_, view_.entry), kAlignment);
  std::memset(calls.data(), 0, calls.size());  // marks every step as not bound
  program.calls_ = reinterpret_cast<Call*>(calls.data() + kept + sizeof(PlacedCall));
  program.places_ = this;
  return {};
}

// Fills the bytes after a block or a weight. Kernels may read them, so they have the same value in every run.
bool Places::fill_tail(uint32_t place, std::byte* at, uint64_t bytes) const {
  const uint64_t tail = padded(place, bytes) - bytes;
  if (port_at(place)->tail_bytes == 0 || tail == 0) return true;
  return port_at(place)->fill(port_at(place)->context, at + bytes, std::byte{0}, size_t(tail)) == Code::kOk;
}

Code Places::write(Args args, const LoadedStep& step, const KernelEntry& entry, Call* call) {
  const Port* const port = port_at(current_);
  if (port != before_) ++segment_;
  before_ = port;
  packed_.take(step, entry, derived_, call);
  if (apart(current_)) {
    NACRE_TRY_CODE(relocate(step, entry, call));
    const Place& place = places_[current_];
    args.scratch = {place.part + mirror(current_, kBlockCount), size_t(place.scratch)};
  }
  *placed(call) = {
      port, nullptr, args.scratch.data(), args.scratch.size(), segment_, size_t(call_bytes(step.tensor_count()))};
  if (port != nullptr) args.context = port->context;
  NACRE_TRY_CODE(prepare_step(entry, args));
  placed(call)->entry = &entry;
  return Code::kOk;
}

// Copies the weights of a step from the host's memory to the port's, and points the call at the port's memory.
Code Places::relocate(const LoadedStep& step, const KernelEntry& entry, Call* call) {
  Place& place = places_[current_];
  const Port& to = *port_at(current_);
  for (uint32_t i = 0; i < step.tensor_count(); ++i) {
    Tensor& tensor = call->operands()[i];
    if (tensor.record == nullptr) continue;
    const auto bytes = size_t(bytes_for(entry, step, i, *tensor.record));
    if (tensor.record->region == Region::kWeights) {
      std::byte* const at = place.part + weights_offset(current_) + place.weights;
      place.weights += padded(current_, bytes);
      const bool done = to.copy(to.context, CopyDirection::kToPort, at, tensor.data, bytes) == Code::kOk;
      if (!done || !fill_tail(current_, at, bytes)) return Code::kPortFailed;
      tensor.data = at;
    } else {
      const Location home = locate(step.model, step.tensor_id(i));
      tensor.data = mirror_at(current_, home.block) + home.offset;
    }
  }
  return Code::kOk;
}

// Unbinds the program. It does not read the model, which may be gone.
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

// Prepares or ends the phase in which a Trainer's programs share mirrors. All programs are measured before the first
// is bound, because the positions of the mirrors depend on all of them.
Status Places::share(Places& self, Sharing phase) {
  for (uint32_t i = 0; i < kMaxPlaces; ++i) {
    Place& place = self.places_[i];
    if (!place.keeps || !self.apart(i)) continue;
    if (phase == Sharing::kMeasure) {
      place.shared = place.foreign = 0;
      continue;
    }
    const uint64_t mirrors = self.shared_mirror(i, kBlockCount);
    const uint64_t bytes = mirrors + (self.keeps_state(i) ? self.padded(i, self.block_bytes(kState)) : 0);
    if (phase == Sharing::kEnd) {
      place.needed += bytes;
      continue;
    }
    const size_t left = place.memory.data() == nullptr ? 0 : place.memory.size() - place.taken;
    if (left < bytes) return {Code::kMemorySize, Table::kPort, i, bytes, left};
    std::byte* const base = place.memory.data() + place.taken;
    place.taken += size_t(bytes);
    place.states = {};
    place.saved = base + mirrors, place.copy = StateCopy::kNone;
    for (uint32_t block = kState; block <= kStepSums; ++block) {
      const bool used = (place.shared >> (block - kState) & 1) != 0;
      place.mirror[block - kState] = {base + self.shared_mirror(i, block), used ? size_t(self.block_bytes(block)) : 0};
    }
  }
  self.sharing_ = phase != Sharing::kEnd;
  self.lost_ = self.lost_ && phase != Sharing::kBind;
  self.holder_known_ = self.holder_known_ && phase != Sharing::kBind;
  return {};
}

// Returns whether a Trainer's state is only on this place and on the host. All its programs are measured before.
bool Places::keeps_state(uint32_t place) const {
  const Place& p = places_[place];
  return p.keeps && apart(place) && (p.shared & ~p.foreign & kStateBit) != 0;
}

void Places::changed(Places& self, Block block, bool zeroed) {
  self.lost_ = self.lost_ && block != kState;
  for (Place& place : self.places_) place.states[block - kState] = host_wrote(zeroed);
}

}  // namespace nacre
