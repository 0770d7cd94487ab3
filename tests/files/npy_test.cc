// Tests files as NumPy 2.4 writes them, byte for byte.
#include "tools/files/npy.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tools/files/atomic_file.h"

namespace nacre::tools {
namespace {

using Bytes = std::vector<uint8_t>;

// Returns a version 1 file as numpy.save writes it, with the header padded by spaces to 128 bytes.
Bytes npy(const std::string& descr, const std::string& order, const std::string& shape, const Bytes& data) {
  std::string header = "{'descr': " + descr + ", 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.resize(117, ' ');
  header += '\n';
  const std::string start = std::string("\x93NUMPY\x01\x00v\x00", 10) + header;
  Bytes bytes(start.begin(), start.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

Bytes with_header(const std::string& header, int version = 1, const Bytes& data = {}) {
  std::string start = std::string("\x93NUMPY") + char(version) + '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) start += char(header.size() >> (8 * i) & 255);
  start += header;
  Bytes bytes(start.begin(), start.end());
  bytes.insert(bytes.end(), data.begin(), data.end());
  return bytes;
}

Bytes from_hex(const std::string& hex) {
  Bytes bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes.push_back(uint8_t(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::string refusal(const std::function<void()>& function, ExitCode code = kBadInput) {
  try {
    function();
  } catch (const Error& error) {
    EXPECT_EQ(error.code, code) << error.what();
    return error.what();
  }
  return "accepted";
}

std::string refusal(const Bytes& bytes, ExitCode code = kBadInput) {
  return refusal([&] { parse_npy(bytes, "x.npy"); }, code);
}

const Bytes kSixFloats = {0, 0, 0,  0,  0, 0, 128, 63, 0, 0, 0,   64,
                          0, 0, 64, 64, 0, 0, 128, 64, 0, 0, 160, 64};  // 0 to 5

TEST(npy, reads_and_writes_what_numpy_writes) {
  const Bytes bytes = npy("'<f4'", "False", "(2, 3)", kSixFloats);
  const NpyArray array = parse_npy(bytes, "x.npy");
  EXPECT_EQ(array.type, ElementType::kFloat32);
  EXPECT_EQ(array.dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(array.values<float>(), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(npy_bytes(array), bytes);
}

TEST(npy, every_element_type_is_read_and_written) {
  const struct {
    const char* descr;
    ElementType type;
    size_t bytes;
  } cases[] = {{"<f2", ElementType::kFloat16, 2}, {"<f4", ElementType::kFloat32, 4}, {"<f8", ElementType::kFloat64, 8},
               {"|i1", ElementType::kInt8, 1},    {"<i2", ElementType::kInt16, 2},   {"<i4", ElementType::kInt32, 4},
               {"<i8", ElementType::kInt64, 8},   {"|u1", ElementType::kUint8, 1},   {"<u4", ElementType::kUint32, 4},
               {"|b1", ElementType::kBool, 1}};
  for (const auto& c : cases) {
    const Bytes bytes = npy("'" + std::string(c.descr) + "'", "False", "(2,)", Bytes(2 * c.bytes, 1));
    EXPECT_EQ(parse_npy(bytes, "x.npy").type, c.type) << c.descr;
    EXPECT_EQ(npy_bytes(parse_npy(bytes, "x.npy")), bytes) << c.descr;
  }
}

TEST(npy, scalars_and_arrays_without_elements_are_arrays) {
  const Bytes scalar = npy("'<f8'", "False", "()", {0, 0, 0, 0, 0, 0, 4, 64});
  EXPECT_EQ(parse_npy(scalar, "x.npy").values<double>(), std::vector<double>{2.5});
  EXPECT_EQ(npy_bytes(parse_npy(scalar, "x.npy")), scalar);
  const Bytes empty = npy("'|i1'", "False", "(0, 4)", {});
  EXPECT_EQ(parse_npy(empty, "x.npy").dims, (std::vector<int64_t>{0, 4}));
  EXPECT_EQ(npy_bytes(parse_npy(empty, "x.npy")), empty);
}

TEST(npy, fortran_order_becomes_c_order) {
  const NpyArray array = parse_npy(npy("'<f4'", "True", "(2, 3)", kSixFloats), "x.npy");
  EXPECT_EQ(array.values<float>(), (std::vector<float>{0, 2, 4, 1, 3, 5}));
  Bytes counted(24);
  for (size_t i = 0; i < 24; ++i) counted[i] = uint8_t(i);
  const ElementBytes cube = parse_npy(npy("'|u1'", "True", "(2, 3, 4)", counted), "x.npy").data;
  for (size_t i = 0; i < 2; ++i)
    for (size_t j = 0; j < 3; ++j)
      for (size_t k = 0; k < 4; ++k) EXPECT_EQ(cube[(i * 3 + j) * 4 + k], i + 2 * j + 6 * k);
}

TEST(npy, versions_2_and_3_have_longer_lengths) {
  const std::string header = "{'descr': '<i2', 'fortran_order': False, 'shape': (2,), }   \n";
  for (const int version : {1, 2, 3})
    EXPECT_EQ(parse_npy(with_header(header, version, {1, 0, 254, 255}), "x.npy").values<int16_t>(),
              (std::vector<int16_t>{1, -2}));
  for (const int version : {0, 4, 255})
    EXPECT_NE(refusal(with_header(header, version, {1, 0, 254, 255}), kUnsupported), "accepted");
}

TEST(npy, headers_may_be_written_in_any_order_and_spacing) {
  EXPECT_EQ(
      parse_npy(with_header("{\"shape\":(1,2),\"descr\":\"|i1\",\"fortran_order\":False}", 1, {5, 6}), "x.npy").data,
      (Bytes{5, 6}));
}

TEST(npy, a_cut_file_is_refused_at_every_length) {
  const Bytes bytes = npy("'<f4'", "False", "(2, 3)", kSixFloats);
  for (size_t length = 0; length < bytes.size(); ++length) {
    const Bytes cut(bytes.begin(), bytes.begin() + ptrdiff_t(length));
    try {
      parse_npy(cut, "x.npy");
      FAIL() << length;
    } catch (const Error&) {
    }
  }
  Bytes longer = bytes;
  longer.push_back(0);
  EXPECT_EQ(refusal(longer), "x.npy: has 25 bytes of elements, its shape needs 24");
}

TEST(npy, malformed_headers_are_refused) {
  for (const char* header : {"",
                             " ",
                             "{",
                             "}",
                             "{}",
                             "[]",
                             "{'descr': '|i1'}",
                             "{'descr': '|i1', 'fortran_order': False}",
                             "{'descr': '|i1', 'fortran_order': 0, 'shape': (1,)}",
                             "{'descr': '|i1', 'fortran_order': False, 'shape': 1}",
                             "{'descr': '|i1', 'fortran_order': False, 'shape': (1}",
                             "{'descr': '|i1', 'fortran_order': False, 'shape': (-1,)}",
                             "{'descr': '|i1', 'fortran_order': False, 'shape': (1.0,)}",
                             "{'descr': '|i1', 'fortran_order': False, 'shape': (1 1)}",
                             "{'descr': '|i1', 'fortran_order': False, 'shape': (,)}",
                             "{'descr': '|i1' 'fortran_order': False, 'shape': (1,)}",
                             "{'descr': '|i1', 'fortran_order': False, 'shape': (99999999999999999999,)}",
                             "{'descr': '|i1', 'descr': '|i1', 'fortran_order': False, 'shape': (1,)}",
                             "{'descr': '|i1', 'fortran_order': False, 'shape': (1,), 'more': 1}",
                             "{'descr': '|i1', 'fortran_order': False, 'shape': (1,)} x",
                             "{'descr': |i1, 'fortran_order': False, 'shape': (1,)}",
                             "{'descr: 1",
                             "{'descr': '|i1', 'fortran_order': False, 'shape': "
                             "(1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}"})
    EXPECT_EQ(refusal(with_header(header, 1, {0})).substr(0, 6), "x.npy:") << header;
}

TEST(npy, what_would_need_a_cast_or_python_is_refused) {
  EXPECT_EQ(refusal(npy("'>i4'", "False", "(1,)", Bytes(4)), kUnsupported).substr(0, 26), "x.npy: big-endian elements");
  EXPECT_EQ(refusal(npy("'<U3'", "False", "(1,)", Bytes(12)), kUnsupported),
            "x.npy: holds text, elements of type '<U3'\n    give the numbers of the classes: "
            "numpy.unique(labels, return_inverse=True)[1]");
  for (const char* descr : {"'|O'", "'<U1'", "'<c8'", "'<u2'", "'<u8'", "[('a', '<f4')]", "'<i1'", "''"})
    EXPECT_NE(refusal(npy(descr, "False", "(1,)", Bytes(4)), kUnsupported), "accepted") << descr;
  EXPECT_NE(refusal(npy("'|b1'", "False", "(2,)", {1, 2})), "accepted");
}

TEST(npy, shapes_whose_bytes_overflow_are_refused) {
  for (const char* shape :
       {"(4294967296, 4294967296)", "(9223372036854775807,)", "(9223372036854775807, 9223372036854775807, 2)"})
    EXPECT_NE(refusal(npy("'<f8'", "False", shape, {}), kUnsupported), "accepted") << shape;
  EXPECT_EQ(parse_npy(npy("'<f8'", "False", "(9223372036854775807, 0, 9223372036854775807)", {}), "x.npy").data.size(),
            0u);
}

TEST(npy, values_are_not_cast) {
  const NpyArray array = parse_npy(npy("'|u1'", "False", "(1,)", {1}), "labels.npy");
  EXPECT_EQ(refusal([&] { array.values<int8_t>(); }), "labels.npy: holds uint8, expected int8");
}

TEST(npy, files_that_cannot_be_read_are_named) {
  EXPECT_EQ(refusal([] { read_npy("/nowhere/x.npy"); }, kIo),
            "/nowhere/x.npy: cannot be opened: No such file or directory");
  EXPECT_NE(refusal([] { read_npy("/"); }, kIo), "accepted");
}

TEST(npy, a_written_file_reads_the_same) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("nacre_npy_" + std::to_string(getpid()))).string();
  write_npy(path, {ElementType::kInt32, {2, 1}, {1, 0, 0, 0, 255, 255, 255, 255}});
  const NpyArray array = read_npy(path);
  std::filesystem::remove(path);
  EXPECT_EQ(array.values<int32_t>(), (std::vector<int32_t>{1, -1}));
  EXPECT_EQ(array.dims, (std::vector<int64_t>{2, 1}));
}

// numpy.savez, x = int8 [[1, -2], [3, -4]], bias = float32 [0.5]
constexpr const char* kStored =
    "504b0304140000000000000021000b105843840000008400000005001400782e6e7079010010008400000000000000840000000000000093"
    "4e554d5059010076007b276465736372273a20277c6931272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065"
    "273a2028322c2032292c207d2020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "20202020202020202020202020200a01fe03fc504b0304140000000000000021001aaed448840000008400000008001400626961732e6e70"
    "790100100084000000000000008400000000000000934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e"
    "5f6f72646572273a2046616c73652c20277368617065273a2028312c292c207d202020202020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020202020202020202020202020202020200a0000003f504b01021403140000000000000021"
    "000b1058438400000084000000050000000000000000000000800100000000782e6e7079504b01021403140000000000000021001aaed448"
    "84000000840000000800000000000000000000008001bb000000626961732e6e7079504b0506000000000200020069000000790100000000";

// numpy.savez_compressed, x = float32 zeros [10, 10]
constexpr const char* kDeflated =
    "504b030414000000080000002100f8ce2c914d0000001002000005001400782e6e70790100100010020000000000004d000000000000009b"
    "ec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a"
    "86063a0a86069a3a0ab50a64022e865130a80000504b0102140314000000080000002100f8ce2c914d000000100200000500000000000000"
    "00000000800100000000782e6e7079504b0506000000000100010033000000840000000000";

TEST(npz, reads_what_numpy_writes) {
  const NpzArrays stored = parse_npz(from_hex(kStored), "s.npz");
  ASSERT_EQ(stored.size(), 2u);
  EXPECT_EQ(stored[0].first, "x");
  EXPECT_EQ(stored[0].second.values<int8_t>(), (std::vector<int8_t>{1, -2, 3, -4}));
  EXPECT_EQ(stored[1].first, "bias");
  EXPECT_EQ(stored[1].second.values<float>(), std::vector<float>{0.5f});
  const NpzArrays deflated = parse_npz(from_hex(kDeflated), "c.npz");
  ASSERT_EQ(deflated.size(), 1u);
  EXPECT_EQ(deflated[0].second.values<float>(), std::vector<float>(100));
}

TEST(npz, a_written_file_reads_the_same_and_has_the_same_bytes_every_time) {
  const NpzArrays arrays = {{"conv1/x", {ElementType::kInt8, {3}, {1, 2, 3}}},
                            {"y", {ElementType::kFloat32, {1}, Bytes(4)}}};
  const Bytes bytes = npz_bytes(arrays);
  EXPECT_EQ(bytes, npz_bytes(arrays));
  const NpzArrays read = parse_npz(bytes, "x.npz");
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].first, "conv1/x");
  EXPECT_EQ(read[0].second.data, arrays[0].second.data);
  EXPECT_TRUE(parse_npz(npz_bytes({}), "x.npz").empty());
}

TEST(npz, a_cut_file_is_refused_at_every_length) {
  for (const char* hex : {kStored, kDeflated}) {
    const Bytes bytes = from_hex(hex);
    for (size_t length = 0; length < bytes.size(); ++length)
      EXPECT_NE(refusal([&] { parse_npz(std::span(bytes).first(length), "x.npz"); }), "accepted") << length;
  }
}

TEST(npz, a_flipped_bit_is_refused_or_changes_no_number) {
  for (const char* hex : {kStored, kDeflated}) {
    const Bytes bytes = from_hex(hex);
    const NpzArrays good = parse_npz(bytes, "x.npz");
    for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      Bytes flipped = bytes;
      flipped[bit / 8] = uint8_t(flipped[bit / 8] ^ 1 << bit % 8);
      try {
        const NpzArrays read = parse_npz(flipped, "x.npz");
        ASSERT_EQ(read.size(), good.size()) << bit;
        for (size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i].second.data, good[i].second.data) << bit;
      } catch (const Error& error) {
        EXPECT_TRUE(error.code == kBadInput || error.code == kUnsupported) << bit << ' ' << error.what();
      }
    }
  }
}

TEST(npz, what_unpacks_to_more_than_allowed_is_refused) {
  EXPECT_NE(refusal([] { parse_npz(from_hex(kDeflated), "x.npz", 500); }, kUnsupported), "accepted");
  EXPECT_EQ(parse_npz(from_hex(kDeflated), "x.npz", 528).size(), 1u);
}

}  // namespace
}  // namespace nacre::tools
