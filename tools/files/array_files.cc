#include "tools/files/array_files.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cctype>
#include <memory>

#include "tools/base/format.h"

namespace nacre::tools {
namespace {

constexpr size_t kInflated = 1 << 16;

bool starts_with(std::span<const uint8_t> bytes, std::initializer_list<uint8_t> magic) {
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

// Returns whether the first 4,096 bytes hold no control characters but tabs, line ends and form feeds.
bool is_text(std::span<const uint8_t> bytes) {
  return std::ranges::all_of(bytes.first(std::min(bytes.size(), size_t{4096})),
                             [](uint8_t b) { return b >= 0x20 || (b >= '\t' && b <= '\r'); });
}

bool begins_array_file(std::span<const uint8_t> head) {
  return starts_with(head, {0x1F, 0x8B}) || starts_with(head, {0x93, 'N', 'U', 'M', 'P', 'Y'}) ||
         starts_with(head, {'P', 'K'}) || (starts_with(head, {0, 0}) && head[2] != 0) || is_text(head);
}

struct IdxType {
  uint8_t code;
  ElementType type;
};
constexpr IdxType kIdxTypes[] = {{0x08, ElementType::kUint8},   {0x09, ElementType::kInt8},
                                 {0x0B, ElementType::kInt16},   {0x0C, ElementType::kInt32},
                                 {0x0D, ElementType::kFloat32}, {0x0E, ElementType::kFloat64}};

struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

}  // namespace

NpyArray parse_idx(std::span<const uint8_t> bytes, const std::string& place) {
  if (bytes.size() < 4 || bytes[0] != 0 || bytes[1] != 0) throw Error(kBadInput, place, "not an IDX file");
  const auto known = std::ranges::find(kIdxTypes, bytes[2], &IdxType::code);
  if (known == std::end(kIdxTypes))
    throw Error(kUnsupported, place, fmt::format("IDX elements of type 0x{:02X}", bytes[2]),
                "known are 08 (uint8), 09 (int8), 0B (int16), 0C (int32), 0D (float32) and 0E (float64)");
  const size_t rank = bytes[3], start = 4 + 4 * rank, size = element_bits(known->type) / 8;
  if (rank == 0) throw Error(kBadInput, place, "an IDX file without a dimension");
  if (bytes.size() < start) throw Error(kBadInput, place, "an IDX file that ends in its header");
  NpyArray array = {.type = known->type, .dims = {}, .data = {}, .place = place};
  uint64_t wanted = size;
  for (size_t i = 0; i < rank; ++i) {
    const uint8_t* b = &bytes[4 + 4 * i];
    const uint64_t dim = uint64_t{b[0]} << 24 | uint64_t{b[1]} << 16 | uint64_t{b[2]} << 8 | b[3];
    array.dims.push_back(int64_t(dim));
    if (dim == 0) throw Error(kBadInput, place, fmt::format("its dimension {} is 0: it holds no element", i + 1));
    if (wanted > kMostNpyBytes / dim) throw Error(kUnsupported, place, "an array of more than 4 GiB");
    wanted *= dim;
  }
  if (bytes.size() - start != wanted)
    throw Error(kBadInput, place,
                fmt::format("has {} bytes of elements, its dimensions {} need {}", grouped(bytes.size() - start),
                            dims_text(array.dims), grouped(wanted)));
  std::vector<uint8_t> elements(bytes.begin() + std::ptrdiff_t(start), bytes.end());
  for (size_t at = 0; size > 1 && at < elements.size(); at += size)
    std::reverse(elements.begin() + std::ptrdiff_t(at), elements.begin() + std::ptrdiff_t(at + size));
  array.data = std::move(elements);
  return array;
}

// Unpacks into a buffer that grows with the unpacked bytes: no size from the file is trusted.
std::vector<uint8_t> gunzip(std::span<const uint8_t> bytes, const std::string& place, uint64_t most_bytes) {
  std::vector<uint8_t> result;
  while (!bytes.empty()) {
    z_stream stream = {};
    constexpr int kGzip = 16 + MAX_WBITS;
    if (inflateInit2(&stream, kGzip) != Z_OK) throw Error(kFailed, place, "cannot be unpacked");
    const std::unique_ptr<z_stream, EndInflate> ends(&stream);
    for (int said = Z_OK; said != Z_STREAM_END;) {
      const size_t given = std::min(bytes.size(), size_t{1} << 30), at = result.size();
      result.resize(at + kInflated);
      stream.next_in = const_cast<Bytef*>(bytes.data());
      stream.avail_in = uInt(given);
      stream.next_out = result.data() + at;
      stream.avail_out = kInflated;
      said = inflate(&stream, Z_NO_FLUSH);
      result.resize(at + kInflated - stream.avail_out);
      bytes = bytes.subspan(given - stream.avail_in);
      if (said == Z_BUF_ERROR || (said == Z_OK && bytes.empty() && stream.avail_out > 0))
        throw Error(kBadInput, place, "a gzip file that ends too early");
      if (said != Z_OK && said != Z_STREAM_END)
        throw Error(kBadInput, place,
                    fmt::format("cannot be unpacked: {}", stream.msg != nullptr ? stream.msg : "not gzip"));
      if (result.size() > most_bytes) throw Error(kUnsupported, place, "unpacks to more bytes than allowed");
    }
  }
  return result;
}

ArrayFile parse_array_file(std::span<const uint8_t> bytes, const std::string& place, uint64_t most_bytes) {
  if (bytes.empty()) throw Error(kBadInput, place, "an empty file");
  if (starts_with(bytes, {0x1F, 0x8B})) {
    const std::vector<uint8_t> unpacked = gunzip(bytes, place, most_bytes);
    if (starts_with(unpacked, {0x1F, 0x8B})) throw Error(kUnsupported, place, "is compressed twice", "unpack it once");
    return parse_array_file(unpacked, place, most_bytes);
  }
  if (starts_with(bytes, {0x93, 'N', 'U', 'M', 'P', 'Y'}))
    return {.format = ArrayFile::Format::kNpy, .arrays = {{"", parse_npy(bytes, place)}}};
  if (starts_with(bytes, {'P', 'K'}))
    return {.format = ArrayFile::Format::kNpz, .arrays = parse_npz(bytes, place, most_bytes)};
  if (starts_with(bytes, {0, 0})) return {.format = ArrayFile::Format::kIdx, .arrays = {{"", parse_idx(bytes, place)}}};
  if (!is_text(bytes))
    throw Error(kBadInput, place, "is neither .npy, .npz, IDX nor CSV", "give one of these, or any of them with gzip");
  return parse_csv({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, place);
}

ArrayFile read_array_file(const std::string& path, const NpyCheck& check) {
  uint8_t head[6] = {};
  const size_t count = InputFile(path).read(0, head);
  if (starts_with(std::span(head).first(count), {0x93, 'N', 'U', 'M', 'P', 'Y'}))
    return {.format = ArrayFile::Format::kNpy, .arrays = {{"", read_npy(path, check)}}};
  if (starts_with(std::span(head).first(count), {'P', 'K'}))
    return {.format = ArrayFile::Format::kNpz, .arrays = read_npz(path, check)};
  return parse_array_file(read_file(path, kMostNpyBytes, begins_array_file), path);
}

}  // namespace nacre::tools
