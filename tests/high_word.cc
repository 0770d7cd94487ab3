// high_word MODEL WHAT OUTPUT: MODEL with the high word of one of its 64-bit numbers set to 1 and a CRC that fits.
// WHAT: tensor_offset, tensor_bytes, segment_offset, segment_bytes, bank. So a shell script can ask an image of 32 bits
// whether it looks at more than low words.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "engine/base/crc32c.h"
#include "engine/model/flatbuffer.h"
#include "engine/model/model.h"

namespace {

// Returns the first byte of the number `what` in the file.
const void* place_of(const nacre::schema::Model& root, const std::string& what) {
  const auto* tensor = reinterpret_cast<const std::byte*>(root.tensors()->Data());
  const auto* segment = reinterpret_cast<const std::byte*>(root.segments()->Data());
  if (what == "tensor_offset") return tensor + offsetof(nacre::TensorRecord, offset);
  if (what == "tensor_bytes") return tensor + offsetof(nacre::TensorRecord, bytes);
  if (what == "segment_offset") return segment + offsetof(nacre::SegmentRecord, offset);
  if (what == "segment_bytes") return segment + offsetof(nacre::SegmentRecord, bytes);
  if (what == "bank") return root.programs()->Get(0)->banks()->Data();
  return nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: high_word MODEL WHAT OUTPUT\n");
    return 2;
  }
  std::ifstream in(arguments[1], std::ios::binary);
  const std::vector<char> read((std::istreambuf_iterator<char>(in)), {});
  if (read.size() < sizeof(nacre::FileHeader)) return 1;
  std::vector<uint64_t> words((read.size() + 7) / 8);  // aligned
  auto* const bytes = reinterpret_cast<std::byte*>(words.data());
  std::memcpy(bytes, read.data(), read.size());
  auto& header = *reinterpret_cast<nacre::FileHeader*>(bytes);
  const auto& root = *nacre::schema::GetModel(bytes + sizeof header);
  const void* const place = place_of(root, arguments[2]);
  if (place == nullptr) return 1;
  std::byte* const high = bytes + (static_cast<const std::byte*>(place) - bytes) + 4;
  const uint32_t one = 1;
  std::memcpy(high, &one, sizeof one);
  const size_t end = sizeof header + header.flatbuffer_bytes;
  header.crc = nacre::crc32c({bytes + 16, end - 16}, nacre::crc32c({bytes, 12}));
  std::ofstream out(arguments[3], std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes), std::streamsize(read.size()));
  return out.flush() ? 0 : 1;
}
