// libFuzzer target: for any bytes, open, measure, bind and run give a model or one refusal (tests/model/exercise.h
// lists all calls). The mutator knows where records are, and corrects length and CRC, so that inputs get past the
// CRC.
//
//   fuzz_open -max_len=16384 corpus/
//   fuzz_open --write-seeds DIR           writes the models of tests/model/cases*.cc, to begin a corpus with
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "engine/model/flatbuffer.h"
#include "tests/model/builder.h"
#include "tests/model/exercise.h"

using nacre::FileHeader;
using nacre::test::Buffer;

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

// Numbers near the limits of checks.
constexpr uint32_t kTurns[] = {0,
                               1,
                               2,
                               3,
                               4,
                               5,
                               7,
                               8,
                               15,
                               16,
                               63,
                               64,
                               127,
                               128,
                               255,
                               256,
                               0x3FFF,
                               0x4000,
                               0xFFFF,
                               0x10000,
                               1u << 24,
                               1u << 28,
                               (1u << 28) + 1,
                               0x3FFFFFFF,
                               1u << 30,
                               2u << 30,
                               0x7FFFFFFF,
                               1u << 31,
                               0x7F800000,
                               0x7FC00000,
                               0xFF800000,
                               0xFFFFFFF0,
                               0xFFFFFFFE,
                               0xFFFFFFFF};

constexpr size_t kLeast = sizeof(FileHeader) + 8;  // smaller files get libFuzzer's own mutations alone

class Mutator {
 public:
  Mutator(uint8_t* data, size_t size, size_t max_size, unsigned seed)
      : data_(data), size_(size), max_size_(max_size), random_(seed) {}

  size_t mutate() {
    if (size_ < kLeast || one_of(16)) return LLVMFuzzerMutate(data_, size_, max_size_);
    for (unsigned i = 0, count = 1 + below(3); i < count && size_ >= kLeast; ++i) change();
    if (size_ >= kLeast) mend();
    return size_;
  }

 private:
  uint32_t below(uint64_t n) { return uint32_t(random_() % n); }
  bool one_of(uint32_t n) { return below(n) == 0; }

  FileHeader& header() { return *reinterpret_cast<FileHeader*>(data_); }

  void change() {
    switch (below(6)) {
      case 0: return whole();
      case 1: return nudge();
      default: return one_of(3) || !record() ? word() : void();
    }
  }

  // Applies libFuzzer's own mutations: insert, erase, splice, cross over. Half of the time flatbuffer_bytes follows.
  void whole() {
    const size_t before = size_;
    size_ = sizeof(FileHeader) +
            LLVMFuzzerMutate(data_ + sizeof(FileHeader), size_ - sizeof(FileHeader), max_size_ - sizeof(FileHeader));
    if (one_of(2)) header().flatbuffer_bytes += uint32_t(size_ - before);
  }

  void nudge() { data_[sizeof(FileHeader) + below(size_ - sizeof(FileHeader))] += one_of(2) ? 1 : 255; }

  // Changes an aligned 32-bit word anywhere: to a number near a limit, a near value, or another word of the file.
  void word() { word_at(data_ + sizeof(FileHeader) + below((size_ - sizeof(FileHeader)) / 4) * 4); }

  void word_at(uint8_t* at) {
    uint32_t value = 0;
    std::memcpy(&value, at, 4);
    switch (below(4)) {
      case 0: value = kTurns[below(std::size(kTurns))]; break;
      case 1: value += below(9) - 4; break;
      case 2: value ^= 1u << below(32); break;
      default: std::memcpy(&value, data_ + sizeof(FileHeader) + below((size_ - sizeof(FileHeader)) / 4) * 4, 4);
    }
    std::memcpy(at, &value, 4);
  }

  // Changes a word or byte of a record in place: of a tensor, step, operand, attribute, quantizer or segment.
  bool record() {
    const uint32_t bytes = header().flatbuffer_bytes;
    if (bytes < 8 || bytes > size_ - sizeof(FileHeader)) return false;
    const uint8_t* start = data_ + sizeof(FileHeader);
    flatbuffers::Verifier verifier(start, bytes, 64, 1 << 16);
    if (reinterpret_cast<uintptr_t>(start) % 8 != 0 || !nacre::schema::VerifyModelBuffer(verifier)) return false;
    const auto* root = nacre::schema::GetModel(start);
    switch (below(8)) {
      case 0: return in(root->tensors(), sizeof(nacre::TensorRecord));
      case 6:
      case 7: return tensor(root->tensors());
      case 1: return in(root->steps(), sizeof(nacre::StepRecord));
      case 2: return in(root->operands(), 4);
      case 3: return in(root->words(), 4);
      case 4: return in(root->quantizers(), sizeof(nacre::QuantizerRecord));
      default: return in(root->segments(), sizeof(nacre::SegmentRecord));
    }
  }

  template <class V>
  bool in(const V* vector, size_t record_bytes) {
    if (vector == nullptr || vector->size() == 0) return false;
    auto* first = const_cast<uint8_t*>(vector->Data());
    uint8_t* at = first + below(vector->size()) * record_bytes + below(record_bytes);
    if (one_of(3)) *at = one_of(2) ? uint8_t(kTurns[below(24)]) : uint8_t(*at + below(5) - 2);
    else word_at(first + (at - first) / 4 * 4);
    return true;
  }

  // Gives a tensor other dims or another type and corrects its bytes, to reach the shape rules and the entries.
  template <class V>
  bool tensor(const V* tensors) {
    if (tensors == nullptr || tensors->size() == 0) return false;
    uint8_t* at = const_cast<uint8_t*>(tensors->Data()) + below(tensors->size()) * sizeof(nacre::TensorRecord);
    nacre::TensorRecord r;  // a copy: a damaged vector may lie at any address
    std::memcpy(&r, at, sizeof r);
    if (one_of(3)) r.element = nacre::ElementType(1 + below(uint32_t(nacre::ElementType::kCount) - 1));
    else if (one_of(8)) r.rank = uint8_t(below(nacre::kMaxRank + 1));
    else r.dims[below(nacre::kMaxRank)] = int32_t(one_of(4) ? kTurns[below(20)] : 1 + below(6));
    uint64_t elements = 1;
    for (uint32_t i = 0; i < uint32_t(nacre::kMaxRank); ++i) {
      if (i >= r.rank) r.dims[i] = 0;
      else elements = elements * uint32_t(r.dims[i]) & 0x7FFFFFFF;
    }
    r.bytes = nacre::storage_bytes(r.element, elements);
    std::memcpy(at, &r, sizeof r);
    return true;
  }

  void mend() {
    FileHeader& h = header();
    std::memcpy(h.magic, nacre::kMagic, sizeof nacre::kMagic);
    h.version = nacre::kFileVersion;
    h.byte_order = nacre::kByteOrderMark;
    h.features = 0;
    h.flatbuffer_offset = sizeof(FileHeader);
    if (h.flatbuffer_bytes < 8 || h.flatbuffer_bytes > size_ - sizeof(FileHeader))
      h.flatbuffer_bytes = uint32_t(size_ - sizeof(FileHeader));
    std::memset(h.reserved, 0, sizeof h.reserved);
    nacre::test::repair({reinterpret_cast<std::byte*>(data_), size_});
  }

  uint8_t* data_;
  size_t size_, max_size_;
  std::minstd_rand random_;
};

int write_seeds(const char* folder) {
  for (const nacre::test::ModelCase& c : nacre::test::cases()) {
    const Buffer file = nacre::test::pack(c.make());
    const std::string path = std::string(folder) + "/" + c.name;
    std::FILE* out = std::fopen(path.c_str(), "wb");
    if (out == nullptr || std::fwrite(file.bytes().data(), 1, file.size(), out) != file.size() ||
        std::fclose(out) != 0) {
      std::fprintf(stderr, "%s: cannot be written\n", path.c_str());
      return 1;
    }
  }
  return 0;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  if (*count == 3 && std::strcmp((*arguments)[1], "--write-seeds") == 0) std::exit(write_seeds((*arguments)[2]));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Buffer aligned(max_size);  // records are changed in place: 64-bit fields at their alignment
  std::memcpy(aligned.data(), data, size);
  const size_t mutated = Mutator(reinterpret_cast<uint8_t*>(aligned.data()), size, max_size, seed).mutate();
  std::memcpy(data, aligned.data(), mutated);
  return mutated;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Buffer file(std::as_bytes(std::span(data, size)));
  nacre::test::exercise(file.bytes(), {.memory_bytes = 1 << 20, .work = 200'000});
  return 0;
}
