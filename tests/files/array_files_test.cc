// Tests files of training data: accepted files, and refusals with their place.
#include <gtest/gtest.h>
#include <zlib.h>

#include <cmath>
#include <cstring>
#include <functional>

#include "tools/base/error.h"
#include "tools/base/split_mix64.h"
#include "tools/files/array_files.h"

namespace nacre::tools {
namespace {

using Bytes = std::vector<uint8_t>;

Bytes text_bytes(const std::string& text) { return {text.begin(), text.end()}; }

Bytes gzipped(const Bytes& data) {
  Bytes packed(data.size() + 128);
  z_stream stream = {};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  stream.next_in = const_cast<Bytef*>(data.data());
  stream.avail_in = uInt(data.size());
  stream.next_out = packed.data();
  stream.avail_out = uInt(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

void expect_refusal(const std::function<void()>& f, const std::vector<std::string>& parts) {
  try {
    f();
    ADD_FAILURE() << "taken: " << parts[0];
  } catch (const Error& error) {
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

void expect_refused(const Bytes& bytes, const std::vector<std::string>& parts) {
  expect_refusal([&] { parse_array_file(bytes, "file"); }, parts);
}

std::vector<double> numbers(const std::string& csv) { return parse_csv(csv, "file").arrays[0].second.values<double>(); }

const Bytes kIdx = {0, 0, 0x0B, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 1, 0, 2, 0xFF, 0xFF, 1, 0, 0x80, 0, 0x7F, 0xFF};

TEST(idx, is_big_endian) {
  const ArrayFile file = parse_array_file(kIdx, "file");
  EXPECT_EQ(file.format, ArrayFile::Format::kIdx);
  EXPECT_EQ(file.arrays[0].second.dims, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file.arrays[0].second.values<int16_t>(), (std::vector<int16_t>{1, 2, -1, 256, -32768, 32767}));
  const Bytes one = {0, 0, 0x0D, 1, 0, 0, 0, 1, 0x3F, 0x80, 0, 0};
  EXPECT_EQ(parse_idx(one, "file").values<float>(), (std::vector<float>{1}));
  const Bytes wide = {0, 0, 0x0E, 1, 0, 0, 0, 1, 0xC0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(parse_idx(wide, "file").values<double>(), (std::vector<double>{-2}));
}

TEST(idx, may_be_gzipped_in_several_members) {
  EXPECT_EQ(parse_array_file(gzipped(kIdx), "file").arrays[0].second.data, parse_idx(kIdx, "file").data);
  Bytes halves = gzipped(Bytes(kIdx.begin(), kIdx.begin() + 9));
  const Bytes rest = gzipped(Bytes(kIdx.begin() + 9, kIdx.end()));
  halves.insert(halves.end(), rest.begin(), rest.end());
  EXPECT_EQ(parse_array_file(halves, "file").arrays[0].second.data, parse_idx(kIdx, "file").data);
}

TEST(idx, hostile_headers_are_refused) {
  for (size_t size = 0; size < kIdx.size(); ++size)
    EXPECT_THROW(parse_array_file(Bytes(kIdx.begin(), kIdx.begin() + std::ptrdiff_t(size)), "file"), Error) << size;
  Bytes more = kIdx;
  more.push_back(0);
  expect_refused(more, {"has 13 bytes of elements, its dimensions [2, 3] need 12"});
  const auto with = [](size_t at, Bytes values) {
    Bytes bytes = kIdx;
    std::copy(values.begin(), values.end(), bytes.begin() + std::ptrdiff_t(at));
    return bytes;
  };
  expect_refused(with(2, {0x0A}), {"IDX elements of type 0x0A", "0B (int16)"});
  expect_refused(with(3, {0}), {"without a dimension"});
  expect_refused(with(3, {255}), {"ends in its header"});
  expect_refused(with(4, {0, 0, 0, 0}), {"its dimension 1 is 0"});
  expect_refused(with(4, {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}), {"more than 4 GiB"});
  expect_refused(with(4, {0x40, 0, 0, 0, 0, 0, 0, 2}), {"has 12 bytes of elements"});
}

TEST(gzip, damage_is_refused) {
  const Bytes whole = gzipped(kIdx);
  for (size_t size = 2; size < whole.size(); ++size)
    EXPECT_THROW(parse_array_file(Bytes(whole.begin(), whole.begin() + std::ptrdiff_t(size)), "file"), Error) << size;
  Bytes crc = whole;
  crc[crc.size() - 6] ^= 1;
  expect_refused(crc, {"cannot be unpacked"});
  Bytes after = whole;
  after.push_back('x');
  EXPECT_THROW(parse_array_file(after, "file"), Error);
  expect_refused(gzipped(whole), {"compressed twice"});
  const Bytes zeros = gzipped(Bytes(1 << 20));
  expect_refusal([&] { gunzip(zeros, "file", 1 << 18); }, {"unpacks to more bytes than allowed"});
}

TEST(csv, with_and_without_names) {
  const ArrayFile plain = parse_csv("1,2.5\n-3e2,+4\n", "file");
  EXPECT_TRUE(plain.csv());
  EXPECT_TRUE(plain.columns.empty());
  EXPECT_EQ(plain.arrays[0].second.dims, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(plain.arrays[0].second.values<double>(), (std::vector<double>{1, 2.5, -300, 4}));
  const ArrayFile named = parse_csv("\xEF\xBB\xBFx;the y;label\r\n1;2;3\r\n\r\n4;5;6", "file");
  EXPECT_EQ(named.columns, (std::vector<std::string>{"x", "the y", "label"}));
  EXPECT_EQ(named.arrays[0].second.values<double>(), (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(numbers("a;b\n1;2\n"), (std::vector<double>{1, 2}));
  EXPECT_EQ(numbers("a\tb\n1\t2\n"), (std::vector<double>{1, 2}));
  EXPECT_EQ(numbers("7\n8\n\n  \n9"), (std::vector<double>{7, 8, 9}));
  EXPECT_EQ(numbers(" 1 , \"2\" \r3,4\r"), (std::vector<double>{1, 2, 3, 4}));
}

TEST(csv, names_may_be_quoted) {
  const ArrayFile file = parse_csv("\"a, b\",\"the \"\"c\"\"\nof two lines\"\n1,2\n", "file");
  EXPECT_EQ(file.columns, (std::vector<std::string>{"a, b", "the \"c\"\nof two lines"}));
  expect_refusal([] { parse_csv("\"a\nb\",c\n1,x\n", "file"); }, {"file, line 3: column 2 is 'x'"});
}

TEST(csv, numbers_out_of_range_stay_what_they_are) {
  EXPECT_EQ(numbers("1e-400,2\n")[0], 0);
  EXPECT_TRUE(std::isinf(numbers("1e400,2\n")[0]));
  EXPECT_TRUE(std::isnan(numbers("1,2\nnan,3\n")[2]));
}

TEST(csv, what_is_wrong_is_said_by_line_and_column) {
  const auto refused = [](const std::string& text, const std::vector<std::string>& parts) {
    expect_refused(text_bytes(text), parts);
  };
  refused("1,2\n3\n", {"file, line 2: has 1 fields, the first line has 2"});
  refused("1,2\n3,4,5\n", {"line 2: has 3 fields"});
  refused("1,2\n\n3,x\n", {"line 3: column 2 is 'x', wanted a number"});
  refused("1,2\n3,\n", {"line 2: column 2 is empty"});
  refused("1,2\n3,1.2.3\n", {"column 2 is '1.2.3'"});
  refused("1,2\n3,0x10\n", {"column 2 is '0x10'"});
  refused("a,2\n3,4\n", {"line 1: 1 of its 2 fields are numbers, so it is neither numbers nor names"});
  refused("a,b\n", {"holds no line of numbers"});
  refused("\n\n", {"holds no line of numbers"});
  refused("\"a,b\n1,2\n", {"line 1: a quote without an end"});
  refused("1,\"2\"x\n", {"goes on after a closing quote"});
  refused("", {"an empty file"});
  refused(std::string("1,2\n3,\0", 7), {"is neither .npy, .npz, IDX nor CSV"});
}

// Any bytes give an array with as many elements as its dims say, or an Error.
TEST(array_files, random_bytes_are_read_or_refused) {
  SplitMix64 random(7);
  const std::string texts[] = {"1,2\n3,4\n", "a,\"b\"\n1;2\r\n\"", "\x93NUMPY"};
  size_t read = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    Bytes bytes = i % 4 == 3 ? kIdx : text_bytes(texts[i % 4 % 3]);
    for (uint64_t n = random.below(6); n-- > 0;) {
      const size_t at = size_t(random.below(bytes.size() + 1));
      if (at == bytes.size()) bytes.push_back(uint8_t(random.next()));
      else if (random.below(4) == 0) bytes.erase(bytes.begin() + std::ptrdiff_t(at));
      else bytes[at] = uint8_t(random.next());
      if (bytes.empty()) bytes.push_back(',');
    }
    try {
      for (const auto& [name, array] : parse_array_file(bytes, "file").arrays)
        EXPECT_EQ(array.data.size(), size_t(array.elements()) * element_bits(array.type) / 8);
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(read, 2000u);
  EXPECT_GT(refused, 2000u);
}

}  // namespace
}  // namespace nacre::tools
