#include "tools/files/zip_archive.h"

#include <zip.h>

#include <algorithm>
#include <string_view>

#include "tools/base/error.h"

namespace nacre::tools {
namespace {

constexpr zip_int64_t kMostZipMembers = 65536;

struct CloseZipMember {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};

// Returns whether a name leads out of the archive.
bool escapes(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.find('\\') != name.npos || name.find(':') != name.npos) return true;
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

void ZipArchive::Close::operator()(zip* archive) const { zip_discard(archive); }

ZipArchive::ZipArchive(std::span<const uint8_t> bytes, const std::string& place, const std::string& remedy)
    : place_(place), remedy_(remedy) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = zip_source_buffer_create(bytes.data(), bytes.size(), 0, &error);
  if (source == nullptr) throw Error(kFailed, place, "cannot be read as an archive");
  archive_.reset(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (archive_ == nullptr) zip_source_free(source);
  zip_error_fini(&error);
  if (archive_ == nullptr) throw Error(kBadInput, place, "is damaged: its directory contradicts its members", remedy);
  const zip_int64_t members = zip_get_num_entries(archive_.get(), 0);
  if (members > kMostZipMembers) throw Error(kUnsupported, place, "has more than 65536 members");
  for (zip_int64_t i = 0; i < members; ++i) {
    const char* name = zip_get_name(archive_.get(), zip_uint64_t(i), 0);
    if (name == nullptr || escapes(name))
      throw Error(kBadInput, place + ": " + (name == nullptr ? "?" : name), "is a name that leads out of the archive",
                  remedy);
  }
}

ZipArchive::~ZipArchive() = default;

std::vector<uint8_t> ZipArchive::member(const std::string& name, uint64_t most) const {
  const std::string place = place_ + ": " + name;
  const zip_int64_t index = zip_name_locate(archive_.get(), name.c_str(), 0);
  if (index < 0) return {};
  zip_stat_t status;
  constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if (zip_stat_index(archive_.get(), zip_uint64_t(index), 0, &status) != 0 || (status.valid & kNeeded) != kNeeded)
    throw Error(kBadInput, place, "its directory is malformed", remedy_);
  if (status.encryption_method != ZIP_EM_NONE) throw Error(kUnsupported, place, "is encrypted");
  if (status.comp_method != ZIP_CM_STORE && status.comp_method != ZIP_CM_DEFLATE)
    throw Error(kUnsupported, place, "is compressed by method " + std::to_string(status.comp_method), remedy_);
  if (status.size > most)
    throw Error(kBadInput, place, "declares more bytes than an archive of its size may hold", remedy_);
  const std::unique_ptr<zip_file_t, CloseZipMember> member(zip_fopen_index(archive_.get(), zip_uint64_t(index), 0));
  if (member == nullptr) throw Error(kBadInput, place, "cannot be unpacked", remedy_);
  std::vector<uint8_t> bytes;
  uint8_t block[1 << 16];
  for (;;) {  // libzip compares the checksum at the end
    const zip_int64_t count = zip_fread(member.get(), block, sizeof block);
    if (count < 0) throw Error(kBadInput, place, "cannot be unpacked: it is damaged", remedy_);
    if (count == 0) break;
    if (bytes.size() + uint64_t(count) > status.size)
      throw Error(kBadInput, place, "is larger than its directory says", remedy_);
    bytes.insert(bytes.end(), block, block + count);
  }
  if (bytes.size() != status.size) throw Error(kBadInput, place, "is smaller than its directory says", remedy_);
  return bytes;
}

}  // namespace nacre::tools
