// Records that the child of hdf5.h sends to its parent. A record is a kind and its fields. Numbers are little-endian. A
// text is its length in 32 bits, then its bytes.
//
//   kDataset  path, element type u8, rank u8, dims u64 each, offset u64, size u64, bytes
//   kText     path of a group, name of the attribute, count u32, texts
//   kRefused  a sentence     nothing follows
//   kEnd                     nothing follows
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace nacre::tools {

enum class Hdf5Record : uint8_t { kDataset = 1, kText = 2, kRefused = 3, kEnd = 4 };

inline constexpr uint32_t kMostHdf5Text = uint32_t{64} << 20;
inline constexpr uint32_t kHdf5TextBytes = 32;  // bytes that a text takes beside its characters
inline constexpr uint32_t kMostHdf5Objects = 200'000;
inline constexpr int kMostHdf5Rank = 8;

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

// Processor time that the child may take: kHdf5Seconds, and a second more for each kHdf5BytesPerSecond bytes it reads.
inline constexpr unsigned kHdf5Seconds = kSanitized ? 20 : 2, kHdf5BytesPerSecond = 1 << 26;

// Reads `bytes` and writes the records to `pipe`. All datasets together have at most `most_bytes`.
void send_hdf5(std::span<const uint8_t> bytes, const std::vector<std::string>& skipped, uint64_t most_bytes, int pipe);

}  // namespace nacre::tools
