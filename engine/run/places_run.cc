// Runs programs that are bound to places.
#include <cstring>

#include "engine/run/bound_step.h"
#include "engine/run/placed_call.h"
#include "engine/run/places.h"

namespace nacre {

// Most bytes of a counter: a Trainer reads only the counters among the sums of a step.
constexpr uint64_t kCounterBytes = 16;

struct Places::Run {
  const Program& program;
  uint32_t rows;
  uint32_t unsaved;  // the place (device) whose learned state has no copy yet; kMaxPlaces if there is none

  const Model& model() const { return *program.model_; }
  Status failed(uint32_t step, Code code = Code::kPortFailed) const {
    return {code, Table::kStep, program.view_.first_step + step};
  }

  // Runs steps [first, last), segment by segment. A segment is consecutive steps on one port.
  Status segments(uint32_t first, uint32_t last) const {
    const Call* call = program.calls_;
    for (uint32_t i = 0; i < first; ++i) call = next(call);
    while (first < last) {
      const Call* behind = call;
      uint32_t end = first;
      for (; end < last && placed(behind)->segment == placed(call)->segment; ++end) behind = next(behind);
      NACRE_TRY(segment(call, first, end));
      call = behind;
      first = end;
    }
    return {};
  }

  // Runs steps [first, end), which are on one port or on the host.
  Status segment(const Call* call, uint32_t first, uint32_t end) const {
    const Port* const port = placed(call)->port;
    if (port == nullptr) return steps(call, nullptr, first, end);
    if (port->begin != nullptr && port->begin(port->context) != Code::kOk) return failed(first);
    Status status = copies(call, *port, CopyDirection::kToPort, first, end);
    if (status.ok() && unsaved < kMaxPlaces && port == program.places_->port_at(unsaved)) status = save(first);
    if (status.ok()) status = steps(call, port, first, end);
    if (status.ok()) status = copies(call, *port, CopyDirection::kFromPort, first, end);
    const Code finished = port->finish == nullptr ? Code::kOk : port->finish(port->context);
    return status.ok() && finished != Code::kOk ? failed(first, finished) : status;
  }

  // Copies the learned state to its second block while steps run that do not write it. The copy is whole when they have
  // finished.
  Status save(uint32_t first) const {
    Places& places = *program.places_;
    if (places.places_[unsaved].copy == StateCopy::kUnderway) return {};
    places.places_[unsaved].copy = copy_began();
    return places.copy_state(unsaved, false) ? Status{} : failed(first);
  }

  Status steps(const Call* call, const Port* port, uint32_t first, uint32_t end) const {
    for (uint32_t i = first; i < end; ++i, call = next(call)) {
      const StepRecord& step = *call->step;
      if (step.guard != kNoIndex && (port == nullptr || !port->reads_guards)) {
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

  // Copies into the port's memory the tensors that a segment reads and has not made, or out of it those it wrote that
  // may be read.
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
        const KeptBlock kept = program.places_->kept_at(port, tensor.data);
        if (kept.place != nullptr && (kept.place->foreign & kept.bit()) == 0) {
          if (!out && !bring(kept, port)) return failed(i);
          if (!out) continue;
          if (role != Role::kIn) kept.state() = place_wrote();
          if (kept.block != kStepSums || tensor.record->bytes > kCounterBytes) continue;
        }
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

  // Copies the host's block to the mirror, if the mirror is older. If that fails, the mirror stays older.
  bool bring(const KeptBlock& kept, const Port& port) const {
    MirrorState& state = kept.state();
    if (is_readable(state)) return true;
    const std::span<std::byte> mirror = kept.place->mirror[kept.block - kState];
    const std::byte* const home = program.region_[kept.block - kState];
    const Code code = state == MirrorState::kZeros
                          ? port.fill(port.context, mirror.data(), std::byte{0}, mirror.size())
                          : port.copy(port.context, CopyDirection::kToPort, mirror.data(), home, mirror.size());
    if (code == Code::kOk) state = brought(state);
    return code == Code::kOk;
  }

  // Returns whether an operand must be in the port's memory before the segment that begins with step `first`. An output
  // that a step with a guard may leave as it is must be there too.
  bool enters(Role role, const TensorRecord& r, const StepRecord& step, uint32_t first) const {
    if (role == Role::kOut) return step.guard != kNoIndex;
    const TensorRecord& root = root_of(model(), r);
    return r.region != Region::kArena || (root.flags & kInput) != 0 || root.first_step < first;
  }

  // Returns whether an operand must be copied back to the host after a segment that ends before step `end`.
  bool leaves(Role role, const TensorRecord& r, uint32_t end) const {
    if (role == Role::kIn) return false;
    const TensorRecord& root = root_of(model(), r);
    bool needed = r.region != Region::kArena || root.last_step >= end;
    for (const uint32_t id : program.view_.outputs) needed |= &root_of(model(), model().tensors()[id]) == &root;
    return needed;
  }
};

Places::KeptBlock Places::kept_at(const Port& port, const void* at) {
  const auto address = reinterpret_cast<uintptr_t>(at);
  for (uint32_t i = 0; i < kMaxPlaces; ++i) {
    if (port_at(i) != &port) continue;
    for (uint32_t block = kState; block <= kStepSums; ++block) {
      const std::span<std::byte> mirror = places_[i].mirror[block - kState];
      if (address - reinterpret_cast<uintptr_t>(mirror.data()) < mirror.size()) return {&places_[i], block};
    }
  }
  return {nullptr, 0};
}

// Returns the place (device) whose learned state is newer than the host's; kMaxPlaces if there is none.
uint32_t Places::newest_state() const {
  uint32_t place = 0;
  while (place < kMaxPlaces && places_[place].states[0] != MirrorState::kAhead) ++place;
  return place;
}

// Copies the learned state to its second block on the device, or back from there.
bool Places::copy_state(uint32_t newest, bool back) {
  const Port& port = *port_at(newest);
  const Place& place = places_[newest];
  const std::span<std::byte> state = place.mirror[0];
  std::byte* const to = back ? state.data() : place.saved;
  return port.copy(port.context, CopyDirection::kWithinPort, to, back ? place.saved : state.data(), state.size()) ==
         Code::kOk;
}

Status Places::run(const Program& program, uint32_t first, uint32_t last, uint32_t rows) {
  Places& self = *program.places_;
  const Entry entry = program.view_.entry;
  const bool writes = entry == Entry::kUpdate;
  const uint32_t newest = self.newest_state();
  Place* const holder = newest < kMaxPlaces ? &self.places_[newest] : nullptr;
  const bool unsaved = holder != nullptr && holder->copy != StateCopy::kWhole;
  const bool saves = unsaved && !writes && !(self.held_ && entry == Entry::kDerive);  // derive runs after the update
  if (self.lost_ || (unsaved && writes && !self.copy_state(newest, false)))
    return {Code::kPortFailed, Table::kStep, program.view_.first_step + first};
  const auto bytes = writes && holder != nullptr ? 0 : size_t(self.kept_bytes(*program.model_, entry));
  std::byte* const block = program.region_[kept_block(entry) - kState];
  std::byte* const kept = self.kept_at_home(program);
  if (bytes != 0) std::memcpy(kept, block, bytes);
  MirrorStates before[kMaxPlaces];
  for (uint32_t i = 0; i < kMaxPlaces; ++i) before[i] = self.places_[i].states;
  const Status status = Run{program, rows, saves ? newest : kMaxPlaces}.segments(first, last);
  if (holder != nullptr && !writes) holder->copy = run_ended(holder->copy, status.ok());
  if (writes && status.ok())
    for (Place& place : self.places_) place.copy = state_wrote();
  if (status.ok()) return status;
  if (bytes != 0) std::memcpy(block, kept, bytes);
  // Bytes that the run copied may not have arrived, and the state that it wrote is not the host's.
  for (uint32_t i = 0; i < kMaxPlaces; ++i) self.places_[i].undo(before[i]);
  if (writes && holder != nullptr) {
    self.lost_ = !self.copy_state(newest, true);
    holder->copy = state_put_back();
  }
  return status;
}

// Returns the host's memory in which a program keeps a copy of the bytes that are restored if a run fails.
std::byte* Places::kept_at_home(const Program& program) const {
  const uint64_t bytes = round_up(kept_bytes(*program.model_, program.view_.entry), kAlignment);
  return reinterpret_cast<std::byte*>(placed(program.calls_)) - bytes;
}

// Copies the learned state to the host by way of the memory in which `update` keeps it, so that the host's block is
// never a mixture.
Status Places::bring_home(const Program& update) {
  Places& self = *update.places_;
  const uint32_t newest = self.newest_state();
  if (newest == kMaxPlaces) return {};
  const Port& port = *self.port_at(newest);
  Place& place = self.places_[newest];
  const std::span<std::byte> state = place.mirror[0];
  std::byte* const kept = self.kept_at_home(update);
  if (self.lost_ || port.copy(port.context, CopyDirection::kFromPort, kept, state.data(), state.size()) != Code::kOk)
    return {Code::kPortFailed, Table::kPort, newest};
  std::memcpy(update.region_[0], kept, state.size());
  place.states[0] = brought_home(place.states[0]);
  return {};
}

// Copies the sums straight into the host's block. If that fails, the block may be partly written.
Status Places::bring_sums(const Program& update) {
  Places& self = *update.places_;
  for (uint32_t i = 0; i < kMaxPlaces; ++i) {
    Place& place = self.places_[i];
    if (place.states[kSums] != MirrorState::kAhead) continue;
    const std::span<std::byte> sums = place.mirror[kSums];
    const Port& port = *self.port_at(i);
    if (port.copy(port.context, CopyDirection::kFromPort, update.region_[kSums], sums.data(), sums.size()) != Code::kOk)
      return {Code::kPortFailed, Table::kPort, i};
    place.states[kSums] = brought_home(place.states[kSums]);
  }
  return {};
}

// Returns the place (device) of this port whose mirror of the sums is the one that programs read and write; null if
// there is none.
Places::Place* Places::keeper_of_sums(const Port& port) {
  for (uint32_t i = 0; i < kMaxPlaces; ++i) {
    Place& place = places_[i];
    if (port_at(i) == &port && (place.foreign >> kSums & 1) == 0 && !place.mirror[kSums].empty()) return &place;
  }
  return nullptr;
}

std::span<std::byte> Places::sums_at(const Program& update, const Port& port) {
  Place* const place = update.places_->keeper_of_sums(port);
  if (place == nullptr || !Run{update, 0, kMaxPlaces}.bring({place, kStepSums}, port)) return {};
  return place->mirror[kSums];
}

// Notes that a program wrote the sums. `counter` is the sum that Trainer reads on the host, or kNoIndex.
Status Places::wrote_sums_at(const Program& update, const Port& port, uint32_t counter) {
  Place* const place = update.places_->keeper_of_sums(port);
  if (place == nullptr) return {Code::kPort, Table::kPort};
  place->states[kSums] = place_wrote();
  if (counter == kNoIndex) return {};
  const std::span<std::byte> home = update.bytes(counter);
  const auto offset = size_t(home.data() - update.region_[kSums]);
  if (offset > place->mirror[kSums].size() || home.size() > place->mirror[kSums].size() - offset)
    return {};  // a counter in another block, which the host has
  const std::byte* const there = place->mirror[kSums].data() + offset;
  const Code code = port.copy(port.context, CopyDirection::kFromPort, home.data(), there, home.size());
  return code == Code::kOk ? Status{} : Status{Code::kPortFailed, Table::kPort};
}

// ---- Several programs as one run ----

// Returns the port that runs all steps of a program, can hold (Port::hold), and keeps all blocks but the arena and, for
// the first program, streams; null if there is none. A later program would read streams that an earlier one, which runs
// at release(), has not yet written on the host.
const Port* Places::holder_of(const Program& program, bool first) const {
  const Model& model = *program.model_;
  if (program.view_.step_count == 0) return nullptr;
  const Call* call = program.calls_;
  const Port* const port = placed(call)->port;
  if (port == nullptr || port->hold == nullptr || !port->reads_guards) return nullptr;
  for (uint32_t i = 0; i < program.view_.step_count; ++i, call = next(call)) {
    if (placed(call)->port != port) return nullptr;
    const uint32_t* ids = model.operands(*call->step);
    for (uint32_t k = 0; k < call->step->operand_count && !first; ++k) {
      const uint32_t id = ids[k] & kOperandIdMask;
      if (id != kNoOperand && model.tensors()[id].region == Region::kStream) return nullptr;
    }
  }
  for (uint32_t place = 0; place < kMaxPlaces; ++place)
    if (port_at(place) == port) return keeps_state(place) && places_[place].foreign == 0 ? port : nullptr;
  return nullptr;
}

const Port* Places::holder(Places& self, std::span<const Program> step) {
  if (self.holder_known_) return self.holder_;
  const Port* port = nullptr;
  bool first = true;
  for (const Program& program : step) {
    if (!program.bound() || (!first && program.view_.step_count == 0)) continue;
    const Port* const runs = self.holder_of(program, first);
    if (first) port = runs;
    else if (runs != port) port = nullptr;
    first = false;
  }
  self.holder_known_ = true;
  return self.holder_ = port;
}

Status Places::hold(Places& self, const Port& port) {
  for (Place& place : self.places_) place.held = {place.states, place.copy};
  self.held_ = port.hold(port.context) == Code::kOk;
  return self.held_ ? Status{} : Status{Code::kPortFailed, Table::kPort};
}

// Ends a held sequence of programs: the port runs it, or drops it. On failure every mirror gets back its state of
// hold(). If the port had run the sequence, the learned state is restored from its copy too.
Status Places::release(Places& self, const Port& port, bool drop) {
  bool ran = false;
  self.held_ = false;
  const Code code = port.release(port.context, drop, &ran);
  if (code == Code::kOk && !drop) return {};
  if (ran) {
    take_back(self);
  } else {
    for (Place& place : self.places_) {
      place.undo(place.held.states);
      place.copy = place.held.copy;
    }
  }
  return {code == Code::kOk ? Code::kPortFailed : code, Table::kPort};
}

// Restores the states of hold(). If a device had the newest learned state then, its second block holds a copy, made by
// the run of the first program. Else the host has the newest state.
void Places::take_back(Places& self) {
  for (Place& place : self.places_) place.undo(place.held.states);
  const uint32_t newest = self.newest_state();
  if (newest == kMaxPlaces) return;
  self.lost_ = !self.copy_state(newest, true);
  self.places_[newest].copy = state_put_back();
}

}  // namespace nacre
