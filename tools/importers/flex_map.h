// A map of whole numbers as FlexBuffers stores it (flatbuffers.dev, "FlexBuffers"): the options of TensorFlow Lite's
// custom operators. The bytes are outside data: what they name outside of themselves is not found.
//
//   root value, `width` bytes | type of the root, 1 byte | width, 1 byte
//   the map, at the root's place less its value:   .. offset of keys, width of keys, size | values | types
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace nacre::tools {

class FlexMap {
 public:
  explicit FlexMap(std::span<const uint8_t> bytes) : bytes_(bytes) {
    if (bytes.size() < 3) return;
    const uint64_t root_width = bytes.back(), root = bytes.size() - 2 - root_width;
    const uint8_t type = bytes[bytes.size() - 2];
    const std::optional<uint64_t> back = root_width > bytes.size() - 2 ? std::nullopt : number(root, root_width);
    if (type >> 2 != kMap || !back || *back > root) return;
    width_ = uint64_t{1} << (type & 3);
    values_ = root - *back;
    if (values_ < 3 * width_) return;
    const uint64_t prefix = values_ - 3 * width_;
    const std::optional<uint64_t> keys = number(prefix, width_), key_width = number(prefix + width_, width_),
                                  size = number(prefix + 2 * width_, width_);
    if (!keys || *keys > prefix || !key_width || !size || *size > bytes.size()) return;
    keys_ = prefix - *keys;
    key_width_ = *key_width;
    size_ = *size;
  }

  std::optional<int64_t> find(std::string_view name) const {
    for (uint64_t i = 0; i < size_; ++i) {
      const uint64_t at = keys_ + i * key_width_;
      const std::optional<uint64_t> back = number(at, key_width_), type = number(values_ + size_ * width_ + i, 1);
      if (!back || *back > at || !type) return std::nullopt;
      if (!is_key(at - *back, name)) continue;
      const std::optional<uint64_t> v = number(values_ + i * width_, width_);
      if (!v) return std::nullopt;
      const uint64_t kind = *type >> 2, unused = 64 - 8 * width_;
      if (kind == kInt) return int64_t(*v << unused) >> unused;
      return kind == kUint || kind == kBool ? std::optional(int64_t(*v)) : std::nullopt;
    }
    return std::nullopt;
  }

 private:
  enum Type : uint8_t { kInt = 1, kUint = 2, kMap = 9, kBool = 26 };

  std::optional<uint64_t> number(uint64_t at, uint64_t width) const {
    if ((width != 1 && width != 2 && width != 4 && width != 8) || at > bytes_.size() || width > bytes_.size() - at)
      return std::nullopt;
    uint64_t v = 0;
    std::memcpy(&v, bytes_.data() + at, width);  // little-endian
    return v;
  }

  bool is_key(uint64_t at, std::string_view name) const {
    return at < bytes_.size() && name.size() < bytes_.size() - at && bytes_[at + name.size()] == 0 &&
           std::memcmp(bytes_.data() + at, name.data(), name.size()) == 0;
  }

  std::span<const uint8_t> bytes_;
  uint64_t values_ = 0, width_ = 1, keys_ = 0, key_width_ = 1, size_ = 0;
};

}  // namespace nacre::tools
