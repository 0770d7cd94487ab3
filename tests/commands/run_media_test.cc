// Tests nacre run on pictures and sounds, and the classes with the highest scores.
#include <gtest/gtest.h>
#include <png.h>
#include <sndfile.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "tests/run_tool.h"
#include "tools/base/json.h"
#include "tools/files/media.h"
#include "tools/files/npy.h"
#include "tools/files/resize_picture.h"

namespace nacre::tools {
namespace {

using Json = nacre::tools::Json;

class run_media : public testing::Test {
 protected:
  // Returns uint8 [height, width, channels] with a pattern.
  static NpyArray pattern(int64_t height, int64_t width, int64_t channels) {
    NpyArray array = {ElementType::kUint8, {height, width, channels}, {}};
    array.data.resize(size_t(array.elements()));
    for (size_t i = 0; i < array.data.size(); ++i) array.data[i] = uint8_t(i * 37 % 251);
    return array;
  }

  void write_png(const std::string& path, const NpyArray& picture) {
    png_image image = {};
    image.version = PNG_IMAGE_VERSION;
    image.height = png_uint_32(picture.dims[0]), image.width = png_uint_32(picture.dims[1]);
    image.format = picture.dims[2] == 1 ? PNG_FORMAT_GRAY : picture.dims[2] == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_RGBA;
    ASSERT_NE(png_image_write_to_file(&image, path.c_str(), 0, picture.data.data(), 0, nullptr), 0);
  }

  // Writes 16-bit PCM behind a header of 44 bytes.
  void write_wav(const std::string& path, const std::vector<int16_t>& pcm, uint16_t channels = 1) {
    std::vector<uint8_t> bytes;
    const auto put = [&](const auto& value) {
      const auto* at = reinterpret_cast<const uint8_t*>(&value);
      bytes.insert(bytes.end(), at, at + sizeof value);
    };
    const auto text = [&](const char* word) { bytes.insert(bytes.end(), word, word + 4); };
    const auto size = uint32_t(pcm.size() * 2);
    text("RIFF"), put(uint32_t(36 + size)), text("WAVE"), text("fmt "), put(uint32_t(16)), put(uint16_t(1)),
        put(channels);
    put(uint32_t(16000)), put(uint32_t(32000 * channels)), put(uint16_t(2 * channels)), put(uint16_t(16));
    text("data"), put(size);
    for (const int16_t x : pcm) put(x);
    write_bytes(path, bytes);
  }

  std::string convert(const std::vector<std::string>& more) {
    std::vector<std::string> words = {"convert", project_path("tools/samples/digits.onnx"), "-o",
                                      directory_ / "m.nacre"};
    words.insert(words.end(), more.begin(), more.end());
    const ToolRun run = run_tool(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return directory_ / "m.nacre";
  }

  static void expect_refusal(const ToolRun& run, int exit_code, const std::string& part) {
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    EXPECT_TRUE(has(run.err, part)) << run.err;
  }

  TemporaryDirectory directory_;
};

TEST_F(run_media, a_picture_becomes_what_the_network_reads_of_it) {
  const NpyArray grey = pattern(8, 8, 1);
  write_png(directory_ / "grey.png", grey);
  NpyArray reals = {ElementType::kFloat32, {1, 1, 8, 8}, {}};
  for (const uint8_t x : grey.data) {
    const float value = (float(x) - 10) / 16;
    const auto* at = reinterpret_cast<const uint8_t*>(&value);
    reals.data.append({at, sizeof value});
  }
  write_npy(directory_ / "reals.npy", reals);
  const std::string model = convert({"--normalize", "pixels=10,16"});
  for (const char* file : {"grey.png", "reals.npy"})
    ASSERT_EQ(
        run_tool({"run", model, "--input", directory_ / file, "--output", directory_ / (file + std::string(".out"))})
            .exit_code,
        0);
  EXPECT_EQ(read_bytes(directory_ / "grey.png.out/probabilities.npy"),
            read_bytes(directory_ / "reals.npy.out/probabilities.npy"));
  write_png(directory_ / "large.png", pattern(9, 8, 1));
  expect_refusal(run_tool({"run", model, "--input", directory_ / "large.png"}), 3,
                 "has 8 x 9 pixels, and the input pixels takes 8 x 8");
  write_bytes(directory_ / "no.png", {'n', 'o', ' ', 'p', 'i', 'c', 't', 'u', 'r', 'e'});
  expect_refusal(run_tool({"run", model, "--input", directory_ / "no.png"}), 3, "is neither PNG nor JPEG");
  std::vector<uint8_t> cut = read_bytes(directory_ / "grey.png");
  cut.resize(cut.size() / 2);
  write_bytes(directory_ / "cut.png", cut);
  expect_refusal(run_tool({"run", model, "--input", directory_ / "cut.png"}), 3, "cannot be read as PNG");
  expect_refusal(run_tool({"run", convert({}), "--input", directory_ / "grey.png"}), 2,
                 "the model does not say which numbers pixels become");
}

TEST_F(run_media, pictures_are_read_as_their_libraries_wrote_them) {
  const NpyArray colour = pattern(16, 24, 3);
  write_png(directory_ / "colour.png", colour);
  EXPECT_EQ(read_picture(directory_ / "colour.png", 3).data, colour.data);
  EXPECT_EQ(read_picture(directory_ / "colour.png", 1).dims, (std::vector<int64_t>{16, 24, 1}));
  const tjhandle writer = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  NpyArray flat = colour;
  std::fill(flat.data.begin(), flat.data.end(), uint8_t(100));
  ASSERT_EQ(tjCompress2(writer, flat.data.data(), 24, 0, 16, TJPF_RGB, &bytes, &size, TJSAMP_444, 95, 0), 0);
  write_bytes(directory_ / "flat.jpg", {bytes, bytes + size});
  EXPECT_EQ(read_picture(directory_ / "flat.jpg", 3).data, flat.data) << "one colour loses nothing";
  write_bytes(directory_ / "cut.jpg", {bytes, bytes + size / 3});
  EXPECT_THROW(read_picture(directory_ / "cut.jpg", 3), Error);
  tjFree(bytes);
  tjDestroy(writer);
}

// Computes one number of the result in float64, by the formula of resize_picture.h.
double resized_at(const NpyArray& x, int64_t height, int64_t width, int64_t i, int64_t j, int64_t c) {
  const auto place = [](int64_t in, int64_t out, int64_t at) {
    return (double(at) + 0.5) * double(in) / double(out) - 0.5;
  };
  const double h = place(x.dims[0], height, i), w = place(x.dims[1], width, j);
  const auto number = [&](int64_t row, int64_t column) {
    row = std::clamp<int64_t>(row, 0, x.dims[0] - 1), column = std::clamp<int64_t>(column, 0, x.dims[1] - 1);
    return double(x.data[size_t((row * x.dims[1] + column) * x.dims[2] + c)]);
  };
  double sum = 0;
  for (const int dh : {0, 1})
    for (const int dw : {0, 1}) {
      const double th = h - std::floor(h), tw = w - std::floor(w);
      sum += (dh == 0 ? 1 - th : th) * (dw == 0 ? 1 - tw : tw) *
             number(int64_t(std::floor(h)) + dh, int64_t(std::floor(w)) + dw);
    }
  return sum;
}

TEST_F(run_media, pictures_are_resized_by_their_formula) {
  const NpyArray row = {ElementType::kUint8, {1, 2, 1}, {10, 20}};
  EXPECT_EQ(resize_picture(row, 1, 4), (std::vector<float>{10, 12.5f, 17.5f, 20}));
  EXPECT_EQ(resize_picture(row, 1, 1), (std::vector<float>{15}));
  constexpr std::pair<int64_t, int64_t> kSizes[] = {{7, 31}, {16, 24}, {50, 5}};
  for (const auto& [height, width] : kSizes) {
    const NpyArray x = pattern(16, 24, 3);
    const std::vector<float> y = resize_picture(x, height, width);
    ASSERT_EQ(y.size(), size_t(height * width * 3));
    for (size_t at = 0; at < y.size(); ++at) {
      const auto i = int64_t(at);
      // s is rounded three times, at most 50 in size: 3 * 2^-24 * 50, times a slope of 255, plus three sums of 255.
      EXPECT_NEAR(double(y[at]), resized_at(x, height, width, i / 3 / width, i / 3 % width, i % 3), 0.003) << at;
    }
  }
}

TEST_F(run_media, a_picture_of_another_size_is_resized_where_it_is_asked_for) {
  const std::string model = convert({"--normalize", "pixels=3,4"});
  const NpyArray large = pattern(9, 12, 1);
  write_png(directory_ / "large.png", large);
  NpyArray reals = {ElementType::kFloat32, {1, 1, 8, 8}, {}};
  for (const float x : resize_picture(large, 8, 8)) {
    const float value = (x - 3) / 4;
    reals.data.append({reinterpret_cast<const uint8_t*>(&value), sizeof value});
  }
  write_npy(directory_ / "reals.npy", reals);
  const std::string pictured = directory_ / "pictured", given = directory_ / "given";
  const ToolRun run = run_tool({"run", model, "--input", directory_ / "large.png", "--resize", "--output", pictured});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  ASSERT_EQ(run_tool({"run", model, "--input", directory_ / "reals.npy", "--output", given}).exit_code, 0);
  EXPECT_EQ(read_bytes(pictured + "/probabilities.npy"), read_bytes(given + "/probabilities.npy"));
  expect_refusal(run_tool({"run", model, "--input", directory_ / "reals.npy", "--resize"}), 2,
                 "--resize: is about pictures, and none is given");
}

TEST_F(run_media, colours_behind_an_alpha_channel_stay_as_they_are) {
  const NpyArray clear = pattern(5, 7, 4);  // any transparency, 0 too
  write_png(directory_ / "clear.png", clear);
  NpyArray opaque = {ElementType::kUint8, {5, 7, 3}, {}};
  for (size_t i = 0; i < clear.data.size(); ++i)
    if (i % 4 != 3) opaque.data.append(std::vector<uint8_t>{clear.data[i]});
  EXPECT_EQ(read_picture(directory_ / "clear.png", 3).data, opaque.data);
  write_png(directory_ / "opaque.png", opaque);
  EXPECT_EQ(read_picture(directory_ / "clear.png", 1).data, read_picture(directory_ / "opaque.png", 1).data);
}

TEST_F(run_media, sounds_of_floats_are_from_minus_one_to_one) {
  const std::vector<float> real = {0, 0.5f, -1, 1, -1.5f, 2, 1.0f / 32768, NAN, 0.6f / 32768};
  SF_INFO info = {};
  info.samplerate = 8000, info.channels = 1, info.format = SF_FORMAT_WAV | SF_FORMAT_FLOAT;
  const std::string path = directory_ / "real.wav";
  SNDFILE* const file = sf_open(path.c_str(), SFM_WRITE, &info);
  ASSERT_NE(file, nullptr);
  sf_writef_float(file, real.data(), sf_count_t(real.size()));
  sf_close(file);
  EXPECT_EQ(read_sound(path).pcm, (std::vector<int16_t>{0, 16384, -32768, 32767, -32768, 32767, 1, 0, 1}));
}

TEST_F(run_media, sounds_are_read_sample_for_sample) {
  const std::vector<int16_t> pcm = {0, 1, -1, 32767, -32768, 1000};
  write_wav(directory_ / "x.wav", pcm);
  const Sound sound = read_sound(directory_ / "x.wav");
  EXPECT_EQ(sound.pcm, pcm);
  EXPECT_EQ(sound.rate, 16000);
  write_wav(directory_ / "two.wav", pcm, 2);
  EXPECT_THROW(read_sound(directory_ / "two.wav"), Error);
  std::vector<int16_t> samples(64, 16384);
  write_wav(directory_ / "half.wav", samples);
  NpyArray half = {ElementType::kFloat32, {1, 1, 8, 8}, {}};
  for (size_t i = 0; i < 64; ++i) {
    const float value = 0.5f;
    const auto* at = reinterpret_cast<const uint8_t*>(&value);
    half.data.append({at, sizeof value});
  }
  write_npy(directory_ / "half.npy", half);
  const std::string model = convert({});
  for (const char* file : {"half.wav", "half.npy"})
    ASSERT_EQ(
        run_tool({"run", model, "--input", directory_ / file, "--output", directory_ / (file + std::string(".out"))})
            .exit_code,
        0);
  EXPECT_EQ(read_bytes(directory_ / "half.wav.out/probabilities.npy"),
            read_bytes(directory_ / "half.npy.out/probabilities.npy"));
  expect_refusal(run_tool({"run", model, "--input", directory_ / "x.wav"}), 3, "has 6 samples at 16000 Hz");
}

TEST_F(run_media, the_highest_scores_have_the_names_of_their_classes) {
  const std::string names = "zero\none\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\n";
  write_bytes(directory_ / "names.txt", {names.begin(), names.end()});
  const std::string model = convert({"--labels", directory_ / "names.txt"});
  const std::string images = project_path("tools/samples/digits_images.npy");
  const ToolRun run = run_tool({"run", model, "--input", images, "--cast-inputs", "--top", "1", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Json json = Json::parse(run.out);
  const NpyArray labels = read_npy(project_path("tools/samples/digits_labels.npy"));
  const std::vector<std::string> words = {"zero", "one", "two",   "three", "four",
                                          "five", "six", "seven", "eight", "nine"};
  size_t right = 0;
  for (size_t i = 0; i < labels.data.size(); ++i) {
    const Json& best = json["top"]["samples"][i][0];
    EXPECT_EQ(best["name"], words[best["class"].get<size_t>()]);
    right += best["class"] == labels.data[i] ? 1 : 0;
  }
  EXPECT_GT(right, 1700u);
  EXPECT_TRUE(has(run_tool({"run", model, "--seed", "1"}).out, ", ")) << "five, unasked";
  EXPECT_FALSE(has(run_tool({"run", model, "--seed", "1", "--top", "0"}).out, "two "));
  expect_refusal(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", directory_ / "n.nacre",
                           "--normalize", "x=1,2"}),
                 2, "the network has no input 'x'");
  expect_refusal(run_tool({"convert", project_path("tools/samples/digits.onnx"), "-o", directory_ / "n.nacre",
                           "--normalize", "pixels=1,0"}),
                 2, "'0' is no divisor");
}

}  // namespace
}  // namespace nacre::tools
