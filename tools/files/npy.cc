// Format: numpy/lib/format.py, "Format Version 1.0" to "3.0".
//
//   "\x93NUMPY", major, minor, header length (2 bytes; from version 2 on 4), header, elements
//   header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }   spaces, newline; a Python literal
#include "tools/files/npy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "tools/base/names.h"
#include "tools/base/progress.h"
#include "tools/files/atomic_file.h"

namespace nacre::tools {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMostHeader = 1 << 16, kMostAxes = 32;

struct Descriptor {
  const char* text;
  ElementType type;
};
constexpr Descriptor kDescriptors[] = {{"<f2", ElementType::kFloat16}, {"<f4", ElementType::kFloat32},
                                       {"<f8", ElementType::kFloat64}, {"|i1", ElementType::kInt8},
                                       {"<i2", ElementType::kInt16},   {"<i4", ElementType::kInt32},
                                       {"<i8", ElementType::kInt64},   {"|u1", ElementType::kUint8},
                                       {"<u4", ElementType::kUint32},  {"|b1", ElementType::kBool}};

struct Header {
  ElementType type = ElementType::kNone;
  bool fortran_order = false;
  std::vector<int64_t> dims;
};

class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& place) : rest_(text), place_(place) {}

  Header parse() {
    bool type = false, order = false, shape = false;
    expect('{');
    while (!take('}')) {
      const std::string_view key = string();
      expect(':');
      bool& seen = key == "descr" ? type : key == "fortran_order" ? order : shape;
      if (seen || (&seen == &shape && key != "shape"))
        fail("has the key '" + std::string(key) + "' twice or without a meaning");
      seen = true;
      if (&seen == &type) header_.type = descriptor();
      else if (&seen == &order) header_.fortran_order = boolean();
      else header_.dims = tuple();
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    if (!type || !order || !shape) fail("lacks one of 'descr', 'fortran_order' and 'shape'");
    skip_spaces();
    if (!rest_.empty()) fail("goes on after its end");
    return std::move(header_);
  }

 private:
  [[noreturn]] void fail(const std::string& fact) const { throw Error(kBadInput, place_, "its .npy header " + fact); }

  void skip_spaces() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\n' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }

  bool take(char c) {
    skip_spaces();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!take(c)) fail(std::string("is malformed: '") + c + "' expected");
  }

  std::string_view string() {
    const char quote = take('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const size_t end = rest_.find(quote);
    if (end == std::string_view::npos) fail("is malformed: a string without an end");
    const std::string_view text = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return text;
  }

  ElementType descriptor() {
    constexpr const char* kRemedy =
        "expected little-endian f2 f4 f8 i1 i2 i4 i8 u1 u4 or b1: convert it with numpy's astype";
    skip_spaces();
    if (!rest_.empty() && rest_[0] == '[') throw Error(kUnsupported, place_, "a structured array", kRemedy);
    const std::string_view text = string();
    for (const Descriptor& d : kDescriptors)
      if (text == d.text) return d.type;
    const std::string shown(text.substr(0, 20));
    if (text.find_first_of("US") == 1)
      throw Error(kUnsupported, place_, "holds text, elements of type '" + shown + "'",
                  "give the numbers of the classes: numpy.unique(labels, return_inverse=True)[1]");
    throw Error(kUnsupported, place_,
                text.starts_with('>') ? "big-endian elements" : "elements of type '" + shown + "'", kRemedy);
  }

  bool boolean() {
    skip_spaces();
    for (const bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (!rest_.starts_with(word)) continue;
      rest_.remove_prefix(word.size());
      return value;
    }
    fail("is malformed: True or False expected");
  }

  std::vector<int64_t> tuple() {
    std::vector<int64_t> dims;
    expect('(');
    while (!take(')')) {
      if (dims.size() == kMostAxes) fail("has more than " + std::to_string(kMostAxes) + " axes");
      dims.push_back(dim());
      if (take(',')) continue;
      expect(')');
      break;
    }
    return dims;
  }

  int64_t dim() {
    skip_spaces();
    int64_t number = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc() || number < 0) fail("has a dimension that is no number from 0 to 2^63 - 1");
    rest_.remove_prefix(size_t(end - rest_.data()));
    return number;
  }

  std::string_view rest_;
  const std::string& place_;
  Header header_;
};

// Returns elements times bytes of an element, or nothing if that is over the limit.
std::optional<uint64_t> bytes_of(ElementType type, const std::vector<int64_t>& dims) {
  uint64_t bytes = element_bits(type) / 8;
  for (const int64_t d : dims)
    if (d == 0) return 0;
  for (const int64_t d : dims) {
    if (uint64_t(d) > kMostNpyBytes / bytes) return std::nullopt;
    bytes *= uint64_t(d);
  }
  return bytes;
}

// Converts x in Fortran order, in which axis 0 is the fastest, to y[i0, i1, ...] in C order.
ElementBytes c_order(const ElementBytes& x, const std::vector<int64_t>& dims, size_t size) {
  ElementBytes y;
  y.resize(x.size());
  uint8_t* const target = y.data();
  std::vector<size_t> stride(dims.size(), size);
  for (size_t axis = 1; axis < dims.size(); ++axis) stride[axis] = stride[axis - 1] * size_t(dims[axis - 1]);
  std::vector<int64_t> index(dims.size());
  size_t from = 0;
  for (size_t to = 0; to < y.size(); to += size) {
    std::memcpy(target + to, &x[from], size);
    x.passed(size);
    y.passed(size);
    for (size_t axis = dims.size(); axis-- > 0;) {
      from += stride[axis];
      if (++index[axis] < dims[axis]) break;
      from -= stride[axis] * size_t(dims[axis]);
      index[axis] = 0;
    }
  }
  return y;
}

// Reads the header as far as it goes: magic, version, length, text.
std::vector<uint8_t> read_head(const NpyBytes& bytes) {
  std::vector<uint8_t> head;
  const auto more = [&](size_t count) {
    const size_t at = head.size();
    head.resize(at + count);
    head.resize(at + bytes.read(std::span(head).subspan(at)));
    return head.size() == at + count;
  };
  if (!more(10) || head[6] < 1 || head[6] > 3 || (head[6] > 1 && !more(2))) return head;
  size_t length = head[8] | size_t{head[9]} << 8;
  if (head[6] > 1) length |= size_t{head[10]} << 16 | size_t{head[11]} << 24;
  more(std::min(length, kMostHeader + 1));
  return head;
}

Header parse_header(std::span<const uint8_t> bytes, const std::string& place) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic)) throw Error(kBadInput, place, "not a .npy file");
  const auto byte = [&](size_t i) { return i < bytes.size() ? size_t{bytes[i]} : 0; };
  const size_t version = byte(6), start = version == 1 ? 10 : 12;
  if (version < 1 || version > 3 || byte(7) != 0)
    throw Error(kUnsupported, place, ".npy version " + std::to_string(version) + '.' + std::to_string(byte(7)),
                "versions 1.0, 2.0 and 3.0 are known");
  size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (bytes.size() < start || std::min(length, kMostHeader + 1) > bytes.size() - start)
    throw Error(kBadInput, place, "a .npy file that ends in its header");
  if (length > kMostHeader) throw Error(kBadInput, place, "its .npy header has more than 65536 bytes");
  return HeaderParser(text.substr(start, length), place).parse();
}

// Reads the elements. Memory grows with the bytes that are read, not with the size that the header declares.
ElementBytes read_elements(const NpyBytes& bytes, uint64_t wanted, const std::string& place) {
  constexpr uint64_t kAtOnce = 1 << 24;
  ElementBytes data;
  std::optional<Progress> progress;
  if (wanted > ElementBytes::kMostHeldBytes) progress.emplace("read", wanted >> 20);
  while (data.size() < wanted) {
    const size_t at = data.size();
    data.resize(size_t(std::min(wanted, at + kAtOnce)));
    const size_t count = bytes.read(std::span(data.data() + at, data.size() - at));
    data.passed(count);
    if (progress) progress->show(data.size() >> 20, "MiB");
    if (at + count == data.size()) continue;
    throw Error(kBadInput, place,
                "has " + std::to_string(at + count) + " bytes of elements, its shape needs " + std::to_string(wanted));
  }
  uint8_t beyond = 0;
  if (bytes.read({&beyond, 1}) > 0)
    throw Error(kBadInput, place,
                "has more bytes of elements than the " + std::to_string(wanted) + " that its shape needs");
  return data;
}

}  // namespace

void NpyArray::require_type(ElementType wanted) const {
  if (type != wanted)
    throw Error(kBadInput, place.empty() ? "array" : place,
                std::string("holds ") + name_of(type) + ", expected " + name_of(wanted));
}

NpyArray read_npy(const NpyBytes& bytes, const std::string& place, const std::function<void(const NpyArray&)>& check) {
  const std::vector<uint8_t> head = read_head(bytes);
  Header header = parse_header(head, place);
  NpyArray array{.type = header.type, .dims = std::move(header.dims), .data = {}, .place = place};
  const std::optional<uint64_t> wanted = bytes_of(array.type, array.dims);
  if (!wanted) throw Error(kUnsupported, place, "an array of more than 4 GiB");
  if (check) check(array);
  if (bytes.size && *bytes.size - head.size() != *wanted)
    throw Error(kBadInput, place,
                "has " + std::to_string(*bytes.size - head.size()) + " bytes of elements, its shape needs " +
                    std::to_string(*wanted));
  if (head.size() + *wanted > bytes.most) throw Error(kUnsupported, place, "unpacks to more bytes than allowed");
  array.data = read_elements(bytes, *wanted, place);
  if (array.type == ElementType::kBool)
    each_part(array.data, 1, [&](std::span<const uint8_t> part, size_t) {
      if (std::ranges::any_of(part, [](uint8_t b) { return b > 1; }))
        throw Error(kBadInput, place, "has a bool that is neither 0 nor 1");
    });
  if (header.fortran_order && array.dims.size() > 1)
    array.data = c_order(array.data, array.dims, element_bits(array.type) / 8);
  return array;
}

NpyArray parse_npy(std::span<const uint8_t> bytes, const std::string& place) {
  const auto read = [rest = bytes](std::span<uint8_t> to) mutable {
    const size_t count = std::min(to.size(), rest.size());
    std::copy_n(rest.begin(), count, to.begin());
    rest = rest.subspan(count);
    return count;
  };
  return read_npy({.read = read, .size = bytes.size()}, place);
}

std::vector<uint8_t> npy_bytes(const NpyArray& array) {
  const auto known = std::find_if(std::begin(kDescriptors), std::end(kDescriptors),
                                  [&](const Descriptor& d) { return d.type == array.type; });
  if (known == std::end(kDescriptors))
    throw Error(kUnsupported, array.place.empty() ? "array" : array.place,
                std::string(".npy has no element type for ") + name_of(array.type));
  if (array.data.size() != storage_bytes(array.type, uint64_t(array.elements())))
    throw Error(kFailed, array.place.empty() ? "array" : array.place,
                "has another number of bytes than its shape says");
  std::string header = std::string("{'descr': '") + known->text + "', 'fortran_order': False, 'shape': (";
  for (size_t i = 0; i < array.dims.size(); ++i) header += (i > 0 ? ", " : "") + std::to_string(array.dims[i]);
  header += array.dims.size() == 1 ? ",), }" : "), }";
  constexpr size_t kBefore = 10, kAligned = 64;  // numpy starts the elements at a multiple of 64
  header.append((kAligned - (kBefore + header.size() + 1) % kAligned) % kAligned, ' ');
  header += '\n';
  std::vector<uint8_t> bytes(kMagic.begin(), kMagic.end());
  for (const size_t b : {size_t{1}, size_t{0}, header.size() & 255, header.size() >> 8}) bytes.push_back(uint8_t(b));
  bytes.insert(bytes.end(), header.begin(), header.end());
  bytes.insert(bytes.end(), array.data.begin(), array.data.end());
  return bytes;
}

NpyArray read_npy(const std::string& path, const NpyCheck& check) {
  const InputFile file(path);
  uint64_t at = 0;
  const auto read = [&](std::span<uint8_t> to) {
    const size_t count = file.read(at, to);
    at += count;
    return count;
  };
  // A file may be longer than its stated size: files in /proc state 0.
  const std::optional<uint64_t> size = file.size() > 0 ? std::optional(file.size()) : std::nullopt;
  return read_npy({.read = read, .size = size}, path, [&](const NpyArray& header) {
    if (check) check("", header);
  });
}

void write_npy(const std::string& path, const NpyArray& array) { write_file_whole(path, npy_bytes(array)); }
void write_npz(const std::string& path, const NpzArrays& arrays) { write_file_whole(path, npz_bytes(arrays)); }

}  // namespace nacre::tools
