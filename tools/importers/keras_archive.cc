// A .keras file: a zip archive. Nothing is unpacked to disk; what is read is bounded by what a file of its size may
// hold, whatever its directory says.
#include <zip.h>

#include <memory>

#include "tools/base/budget.h"
#include "tools/importers/keras.h"

namespace nacre::tools::keras {
namespace {

constexpr uint64_t kMostConfig = uint64_t{64} << 20;
constexpr zip_int64_t kMostMembers = 65536;
constexpr int kMostDepth = 200;
constexpr char kRemedy[] = "open it in Keras and save it again";

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseMember {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};
using Zip = std::unique_ptr<zip_t, Discard>;

Zip open_zip(std::span<const uint8_t> bytes, const std::string& place) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source == nullptr) throw Error(kFailed, place, "cannot be read as an archive");
  Zip archive(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (archive == nullptr) zip_source_free(source);
  zip_error_fini(&error);
  if (archive == nullptr) throw Error(kBadInput, place, "is damaged: its directory contradicts its members", kRemedy);
  return archive;
}

// Whether a name leads out of the archive.
bool escapes(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != name.npos || name.find(':') != name.npos) return true;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") return true;
    at = end + 1;
  }
  return false;
}

std::vector<uint8_t> unpack(zip_t* archive, const char* name, uint64_t most, const std::string& place) {
  const zip_int64_t index = zip_name_locate(archive, name, 0);
  if (index < 0) return {};
  zip_stat_t status;
  constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(archive, zip_uint64_t(index), 0, &status) != 0 || (status.valid & kNeeded) != kNeeded)
    throw Error(kBadInput, place, "its directory is malformed", kRemedy);
  if (status.encryption_method != ZIP_EM_NONE) throw Error(kUnsupported, place, "is encrypted");
  if (status.comp_method != ZIP_CM_STORE && status.comp_method != ZIP_CM_DEFLATE)
    throw Error(kUnsupported, place, "is compressed by method " + std::to_string(status.comp_method), kRemedy);
  if (status.size > most)
    throw Error(kBadInput, place, "declares more bytes than an archive of its size may hold", kRemedy);
  const std::unique_ptr<zip_file_t, CloseMember> member(zip_fopen_index(archive, zip_uint64_t(index), 0));
  if (member == nullptr) throw Error(kBadInput, place, "cannot be unpacked", kRemedy);
  std::vector<uint8_t> bytes;
  uint8_t block[1 << 16];
  for (;;) {  // at the end the checksum is compared
    const zip_int64_t count = zip_fread(member.get(), block, sizeof block);
    if (count < 0) throw Error(kBadInput, place, "cannot be unpacked: it is damaged", kRemedy);
    if (count == 0) break;
    if (bytes.size() + uint64_t(count) > status.size)
      throw Error(kBadInput, place, "is larger than its directory says", kRemedy);
    bytes.insert(bytes.end(), block, block + count);
  }
  if (bytes.size() != status.size) throw Error(kBadInput, place, "is smaller than its directory says", kRemedy);
  return bytes;
}

}  // namespace

Archive read_archive(std::span<const uint8_t> bytes, const std::string& place) {
  const Zip archive = open_zip(bytes, place);
  const zip_int64_t members = zip_get_num_entries(archive.get(), 0);
  if (members > kMostMembers) throw Error(kUnsupported, place, "has more than 65536 members");
  for (zip_int64_t i = 0; i < members; ++i) {
    const char* name = zip_get_name(archive.get(), zip_uint64_t(i), 0);
    if (name == nullptr || escapes(name))
      throw Error(kBadInput, place + ": " + (name == nullptr ? "?" : name), "is a name that leads out of the archive",
                  kRemedy);
  }
  Archive made;
  const auto text = [&](const char* name) {
    const std::vector<uint8_t> member = unpack(archive.get(), name, kMostConfig, place + ": " + name);
    return std::string(member.begin(), member.end());
  };
  made.config = text("config.json");
  if (made.config.empty())
    throw Error(kBadInput, place, "is a zip archive without config.json, so it is no .keras file", "give a network");
  made.metadata = text("metadata.json");
  made.weights = unpack(archive.get(), "model.weights.h5", Budget::kBytes + Budget::kTimes * bytes.size(),
                        place + ": model.weights.h5");
  if (made.weights.empty())
    throw Error(kUnsupported, place, "has no model.weights.h5",
                "save it whole: weights in several files or in .npz are not read");
  return made;
}

Json parse_config(const std::string& text, const std::string& place) {
  try {
    return Json::parse(text, [&](int depth, Json::Event, const std::string&) {
      if (depth > kMostDepth) throw Error(kBadInput, place, "its configuration is nested too deep");
    });
  } catch (const JsonError& error) {
    throw Error(kBadInput, place, std::string("its configuration is no JSON: ") + error.what());
  }
}

}  // namespace nacre::tools::keras
