// Finds where a Keras file stores its float datasets; offset 0 means that one is not in one piece. In an archive they
// lie in the uncompressed member model.weights.h5. seal_keras_archive renews that member's CRC-32.
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "tools/importers/keras/importer.h"
#include "tools/importers/shared/stored_numbers.h"

namespace nacre::tools {
namespace keras {
namespace {

constexpr std::string_view kWeights = "model.weights.h5";
constexpr char kSaveAgain[] = "open it in Keras and save it again";

// An uncompressed member of a zip archive, and the offsets of its CRC-32 (APPNOTE.TXT 6.3, sections 4.3.7 to 4.3.16).
// The checksum is in the header before the member or in the descriptor after it, and in the directory at the end.
struct Member {
  uint64_t begin = 0, size = 0;
  std::vector<uint64_t> checksums;
};

class Directory {
 public:
  Directory(std::span<const uint8_t> bytes, const std::string& place) : bytes_(bytes), place_(place) {}

  Member find(std::string_view name) const {
    const uint64_t end = end_record();
    uint64_t at = number<uint32_t>(end + 16);
    for (int left = number<uint16_t>(end + 10); left > 0; --left) {
      const uint64_t name_size = number<uint16_t>(at + 28);
      if (!has(at, "PK\x01\x02")) damaged();
      if (has(at + 46, name) && name_size == name.size()) return member(at);
      at += 46 + name_size + number<uint16_t>(at + 30) + number<uint16_t>(at + 32);
    }
    damaged();
  }

 private:
  [[noreturn]] void damaged() const { throw Error(kBadInput, place_, "its directory is malformed", kSaveAgain); }

  bool has(uint64_t at, std::string_view text) const {
    return at <= bytes_.size() && text.size() <= bytes_.size() - at &&
           std::memcmp(bytes_.data() + at, text.data(), text.size()) == 0;
  }
  template <class T>
  T number(uint64_t at) const {
    if (at > bytes_.size() || sizeof(T) > bytes_.size() - at) damaged();
    T value;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return value;
  }

  // Finds the archive's end record; a comment of at most 65,535 bytes may follow it.
  uint64_t end_record() const {
    constexpr uint64_t kSize = 22;
    for (uint64_t comment = 0; comment <= UINT16_MAX && comment + kSize <= bytes_.size(); ++comment) {
      const uint64_t at = bytes_.size() - kSize - comment;
      if (has(at, "PK\x05\x06") && number<uint16_t>(at + 20) == comment) return at;
    }
    damaged();
  }

  Member member(uint64_t entry) const {
    constexpr uint16_t kDescribedBehind = 1 << 3;
    if (number<uint16_t>(entry + 10) != 0)
      throw Error(kUnsupported, place_, "its weights are compressed: numbers cannot be put in their place", kSaveAgain);
    const uint64_t header = number<uint32_t>(entry + 42);
    if (!has(header, "PK\x03\x04")) damaged();
    Member m = {header + 30 + number<uint16_t>(header + 26) + number<uint16_t>(header + 28),
                number<uint32_t>(entry + 24),
                {entry + 16}};
    const uint64_t end = m.begin + m.size;
    if (m.size == UINT32_MAX || end > bytes_.size()) damaged();
    if ((number<uint16_t>(header + 6) & kDescribedBehind) == 0) m.checksums.push_back(header + 14);
    else m.checksums.push_back(has(end, "PK\x07\x08") ? end + 4 : end);
    for (const uint64_t at : m.checksums) static_cast<void>(number<uint32_t>(at));
    return m;
  }

  std::span<const uint8_t> bytes_;
  const std::string& place_;
};

std::vector<StoredNumbers> datasets_of(std::span<const uint8_t> bytes, const std::string& place, uint64_t begin) {
  std::vector<StoredNumbers> all;
  for (const auto& [path, dataset] : read_hdf5(bytes, place, kOptimizerGroups).datasets)
    if (is_float_type(dataset.type))
      all.push_back({path, dataset.type, dataset.elements(), dataset.offset == 0 ? 0 : begin + dataset.offset});
  return all;
}

}  // namespace
}  // namespace keras

std::vector<StoredNumbers> stored_numbers_of_keras_hdf5(std::span<const uint8_t> bytes, const std::string& name) {
  return keras::datasets_of(bytes, name, 0);
}

std::vector<StoredNumbers> stored_numbers_of_keras_archive(std::span<const uint8_t> bytes, const std::string& name) {
  const keras::Member weights = keras::Directory(bytes, name).find(keras::kWeights);
  return keras::datasets_of(bytes.subspan(weights.begin, weights.size), name + ": model.weights.h5", weights.begin);
}

void seal_keras_archive(std::span<uint8_t> bytes, const std::string& name) {
  const keras::Member weights = keras::Directory(bytes, name).find(keras::kWeights);
  const auto sum = uint32_t(crc32_z(crc32_z(0, nullptr, 0), bytes.data() + weights.begin, weights.size));
  for (const uint64_t at : weights.checksums) std::memcpy(bytes.data() + at, &sum, sizeof sum);
}

}  // namespace nacre::tools
