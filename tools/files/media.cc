#include "tools/files/media.h"

#include <fmt/format.h>
#include <png.h>
#include <sndfile.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>

#include "tools/base/error.h"
#include "tools/files/input_file.h"

namespace nacre::tools {
namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 28;
constexpr uint64_t kMostBytes = uint64_t{256} << 20;

std::string extension_of(const std::string& path) {
  std::string text = std::filesystem::path(path).extension().string();
  std::ranges::transform(text, text.begin(), [](char c) { return char(std::tolower(static_cast<unsigned char>(c))); });
  return text;
}

NpyArray picture(const std::string& path, int64_t height, int64_t width, int channels) {
  if (height <= 0 || width <= 0 || height > kMostNumbers / width / channels)
    throw Error(kUnsupported, path, fmt::format("has {} x {} pixels", width, height), "give a smaller picture");
  NpyArray made = {ElementType::kUint8, {height, width, channels}, {}, path};
  made.data.resize(size_t(made.elements()));
  return made;
}

NpyArray read_png(const std::vector<uint8_t>& bytes, const std::string& path, int channels) {
  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  const auto free_image = [](png_image* it) { png_image_free(it); };
  const std::unique_ptr<png_image, decltype(free_image)> guard(&image, free_image);
  const auto refuse = [&] {
    throw Error(kBadInput, path, fmt::format("cannot be read as PNG: {}", image.message), "save it again");
  };
  if (png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()) == 0) refuse();
  // A picture with an alpha channel gives its colours as stored, like Pillow's convert("RGB") and TensorFlow's
  // decode_png. libpng would mix them with a background.
  const bool alpha = (image.format & PNG_FORMAT_FLAG_ALPHA) != 0;
  image.format = (channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB) | (alpha ? PNG_FORMAT_FLAG_ALPHA : 0u);
  NpyArray made = picture(path, image.height, image.width, channels + (alpha ? 1 : 0));
  if (png_image_finish_read(&image, nullptr, made.data.data(), 0, nullptr) == 0) refuse();
  if (!alpha) return made;
  NpyArray opaque = picture(path, image.height, image.width, channels);
  const size_t colours = size_t(channels);
  for (size_t i = 0; i < opaque.data.size(); ++i) opaque.data[i] = made.data[i / colours * (colours + 1) + i % colours];
  return opaque;
}

NpyArray read_jpeg(const std::vector<uint8_t>& bytes, const std::string& path, int channels) {
  const auto destroy = [](void* handle) { tjDestroy(handle); };
  const std::unique_ptr<void, decltype(destroy)> reader(tjInitDecompress(), destroy);
  if (reader == nullptr) throw Error(kFailed, path, "cannot be read as JPEG");
  const auto refuse = [&] {
    throw Error(kBadInput, path, fmt::format("cannot be read as JPEG: {}", tjGetErrorStr2(reader.get())),
                "save it again");
  };
  int width = 0, height = 0, sampling = 0, space = 0;
  if (tjDecompressHeader3(reader.get(), bytes.data(), static_cast<unsigned long>(bytes.size()), &width, &height,
                          &sampling, &space) != 0)
    refuse();
  NpyArray made = picture(path, height, width, channels);
  if (tjDecompress2(reader.get(), bytes.data(), static_cast<unsigned long>(bytes.size()), made.data.data(), width, 0,
                    height, channels == 1 ? TJPF_GRAY : TJPF_RGB, TJFLAG_ACCURATEDCT) != 0)
    refuse();
  return made;
}

// Gives libsndfile the file's bytes from memory.
struct Memory {
  std::span<const uint8_t> bytes;
  sf_count_t at = 0;

  static Memory& of(void* data) { return *static_cast<Memory*>(data); }
  static sf_count_t size(void* data) { return sf_count_t(of(data).bytes.size()); }
  static sf_count_t tell(void* data) { return of(data).at; }
  static sf_count_t write(const void*, sf_count_t, void*) { return 0; }
  static sf_count_t seek(sf_count_t offset, int whence, void* data) {
    Memory& m = of(data);
    const sf_count_t base = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? m.at : size(data);
    m.at = std::clamp<sf_count_t>(base + offset, 0, size(data));
    return m.at;
  }
  static sf_count_t read(void* to, sf_count_t count, void* data) {
    Memory& m = of(data);
    const sf_count_t done = std::clamp<sf_count_t>(count, 0, size(data) - m.at);
    std::memcpy(to, m.bytes.data() + m.at, size_t(done));
    m.at += done;
    return done;
  }
};

// Samples of floats lie in -1 to 1. libsndfile would cast them to integers without scaling: mostly zeros.
sf_count_t read_pcm(SNDFILE* file, const SF_INFO& info, std::span<int16_t> pcm) {
  const int kind = info.format & SF_FORMAT_SUBMASK;
  if (kind != SF_FORMAT_FLOAT && kind != SF_FORMAT_DOUBLE) return sf_readf_short(file, pcm.data(), info.frames);
  std::vector<float> real(pcm.size());
  const sf_count_t count = sf_readf_float(file, real.data(), info.frames);
  std::ranges::transform(real, pcm.begin(), [](float x) {
    return std::isnan(x) ? int16_t(0) : int16_t(std::lrint(std::clamp(x * 32768.0f, -32768.0f, 32767.0f)));
  });
  return count;
}

}  // namespace

bool is_picture(const std::string& path) {
  const std::string extension = extension_of(path);
  return extension == ".png" || extension == ".jpg" || extension == ".jpeg";
}

bool is_sound(const std::string& path) {
  const std::string extension = extension_of(path);
  return extension == ".wav" || extension == ".flac" || extension == ".ogg";
}

NpyArray read_picture(const std::string& path, int channels) {
  const std::vector<uint8_t> bytes = read_file(path, kMostBytes);
  constexpr uint8_t kPng[] = {0x89, 'P', 'N', 'G'}, kJpeg[] = {0xFF, 0xD8, 0xFF};
  const auto begins = [&](auto& magic) {
    return bytes.size() > 8 && std::equal(std::begin(magic), std::end(magic), bytes.begin());
  };
  if (begins(kPng)) return read_png(bytes, path, channels);
  if (begins(kJpeg)) return read_jpeg(bytes, path, channels);
  throw Error(kBadInput, path, "is neither PNG nor JPEG", "give a picture of one of these formats");
}

Sound read_sound(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, kMostBytes);
  Memory memory = {bytes};
  SF_VIRTUAL_IO functions = {Memory::size, Memory::seek, Memory::read, Memory::write, Memory::tell};
  SF_INFO info = {};
  const auto close = [](SNDFILE* file) { sf_close(file); };
  const std::unique_ptr<SNDFILE, decltype(close)> file(sf_open_virtual(&functions, SFM_READ, &info, &memory), close);
  if (file == nullptr)
    throw Error(kBadInput, path, fmt::format("cannot be read as sound: {}", sf_strerror(nullptr)), "save it as WAV");
  if (info.channels != 1)
    throw Error(kUnsupported, path, fmt::format("has {} channels", info.channels), "mix them into one first");
  if (info.frames < 0 || info.frames > kMostNumbers) throw Error(kUnsupported, path, "is too long", "cut it");
  Sound sound = {info.samplerate, std::vector<int16_t>(size_t(info.frames))};
  const sf_count_t count = read_pcm(file.get(), info, sound.pcm);
  if (count != info.frames) throw Error(kBadInput, path, "ends too early", "save it again");
  return sound;
}

}  // namespace nacre::tools
