#include "tests/model/sweep.h"

#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/base/crc32c.h"
#include "engine/model/flatbuffer.h"
#include "tests/model/builder.h"
#include "tests/model/filling.h"

namespace nacre::test {
namespace {

constexpr time_t kHangSeconds = 600;  // processor time for one mutant; accepted ones take milliseconds
constexpr uint64_t kWeightStep = 256;
constexpr uint64_t kConstantFillings = 64;

char current[512];  // the mutant being exercised, for whoever reads a crash

void on_signal(int signal) {
  // A signal handler may only make async-signal-safe calls.
  const char* const what = signal == SIGVTALRM ? "\nhang: " : "\ncrash: ";
  if (write(2, what, std::strlen(what)) < 0 || write(2, current, std::strlen(current)) < 0) _exit(99);
  _exit(98);
}

// Limits the process's own processor time, so that a sleeping machine is not a hang. 0 removes the limit.
void limit(time_t seconds) {
  const itimerval timer = {{}, {seconds, 0}};
  setitimer(ITIMER_VIRTUAL, &timer, nullptr);
}

struct Mutants {
  std::span<const std::byte> file;
  uint64_t structure_bytes, bits, weights, constants, lengths;

  explicit Mutants(std::span<const std::byte> bytes) : file(bytes) {
    FileHeader header;
    std::memcpy(&header, file.data(), sizeof header);
    structure_bytes = sizeof header + header.flatbuffer_bytes;
    bits = 8 * structure_bytes;
    weights = (file.size() - structure_bytes + kWeightStep - 1) / kWeightStep;
    constants = weights > 0 ? kConstantFillings : 0;
    lengths = file.size();
  }
  uint64_t count() const { return 2 * (bits + weights + constants + lengths); }
};

// Recomputes the CRCs of the segments, whose bytes were changed but whose records were not.
void repair_segments(Buffer& file) {
  const auto& segments = *schema::GetModel(file.data() + sizeof(FileHeader))->segments();
  for (uint32_t i = 0; i < segments.size(); ++i) {
    auto* record = reinterpret_cast<SegmentRecord*>(const_cast<schema::SegmentRecord*>(segments.Get(i)));
    record->crc = crc32c(std::as_const(file).bytes().subspan(size_t(record->offset), size_t(record->bytes)));
  }
}

// Fills every tensor in weights with one of the fillings of its type. The bytes between tensors stay.
void fill_constants(Buffer& file, uint64_t index) {
  const auto* root = schema::GetModel(file.data() + sizeof(FileHeader));
  const auto filling = Filling(index % 3 + 1);
  for (uint32_t id = 0; id < root->tensors()->size(); ++id) {
    const auto& r = *reinterpret_cast<const TensorRecord*>(root->tensors()->Get(id));
    if (r.region != Region::kWeights || r.alias_of != kNoIndex) continue;
    const uint64_t start = root->segments()->Get(r.bank)->offset() + r.offset;
    fill(file.bytes().subspan(size_t(start), size_t(r.bytes)), r.element, filling, mix(index) + mix(id));
  }
}

struct Mutant {
  Buffer file;
  bool in_weights = false, in_segment = false, repaired = false;
};

bool in_segment(std::span<const std::byte> file, uint64_t at) {
  for (const auto* s : *schema::GetModel(file.data() + sizeof(FileHeader))->segments())
    if (at >= s->offset() && at - s->offset() < s->bytes()) return true;
  return false;
}

Mutant make(const Mutants& all, const std::string& name, uint64_t index) {
  Mutant m;
  m.repaired = index % 2 == 1;
  uint64_t i = index / 2;
  const char* const how = m.repaired ? ", repaired" : "";
  if (i < all.bits + all.weights) {
    m.in_weights = i >= all.bits;
    const uint64_t byte =
        m.in_weights ? all.structure_bytes + (i - all.bits) * kWeightStep + mix(i) % kWeightStep : i / 8;
    const uint64_t at = std::min<uint64_t>(byte, all.file.size() - 1);
    const unsigned bit = m.in_weights ? unsigned(mix(i) >> 32 & 7) : unsigned(i % 8);
    m.file = Buffer(all.file);
    m.in_segment = m.in_weights && in_segment(all.file, at);
    m.file.data()[at] ^= std::byte(1u << bit);
    std::snprintf(current, sizeof current, "%s: byte %llu bit %u%s\n", name.c_str(),
                  static_cast<unsigned long long>(at), bit, how);
  } else if (i < all.bits + all.weights + all.constants) {
    m.in_weights = m.in_segment = true;
    m.file = Buffer(all.file);
    fill_constants(m.file, i - all.bits - all.weights);
    std::snprintf(current, sizeof current, "%s: constants %llu%s\n", name.c_str(),
                  static_cast<unsigned long long>(i - all.bits - all.weights), how);
  } else {
    i -= all.bits + all.weights + all.constants;
    m.file = Buffer(all.file.first(size_t(i)));
    std::snprintf(current, sizeof current, "%s: cut to %llu bytes%s\n", name.c_str(),
                  static_cast<unsigned long long>(i), how);
  }
  if (m.repaired && m.in_weights) repair_segments(m.file);
  if (m.repaired) repair(m.file.bytes());
  return m;
}

}  // namespace

Swept& Swept::operator+=(const Swept& other) {
  tried += other.tried;
  of += other.of;
  missed += other.missed;
  for (size_t i = 0; i < std::size(outcomes); ++i) outcomes[i] += other.outcomes[i];
  return *this;
}

Swept sweep(const std::string& name, std::span<const std::byte> file, uint64_t tries, uint64_t seed) {
  for (const int signal : {SIGVTALRM, SIGABRT, SIGFPE, SIGSEGV, SIGBUS, SIGILL}) std::signal(signal, on_signal);
  const Mutants all(file);
  Swept swept;
  swept.of = all.count();
  // The index i * stride + start mod count visits every mutant once, because the stride has no factor in common with
  // count.
  uint64_t stride = mix(seed) % swept.of | 1, at = mix(seed + 1) % swept.of;
  while (std::gcd(stride, swept.of) != 1) ++stride;
  if (tries == 0) stride = 1;
  const uint64_t last = tries == 0 ? swept.of : std::min(tries, swept.of);
  for (uint64_t i = 0; i < last; ++i, at = (at + stride) % swept.of) {
    const Mutant mutant = make(all, name, at);
    limit(kHangSeconds);
    const Exercised seen = exercise(mutant.file.bytes());
    ++swept.tried;
    ++swept.outcomes[size_t(seen.outcome)];
    if (mutant.in_segment && !mutant.repaired && seen.weights.code != Code::kSegmentCrc) ++swept.missed;
  }
  limit(0);
  return swept;
}

}  // namespace nacre::test
