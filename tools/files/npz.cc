// Reads and writes .npz, a zip of .npy files, with libzip.
#include <zip.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <unordered_set>

#include "tools/files/npy.h"

namespace nacre::tools {
namespace {

constexpr zip_int64_t kMostMembers = 65536;
constexpr std::string_view kSuffix = ".npy";
constexpr zip_uint16_t kDosEpoch = 0x21;  // 1980-01-01; with the current time every file would differ

struct Discard {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, Discard>;

struct CloseMember {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};

struct FreeSource {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using Source = std::unique_ptr<zip_source_t, FreeSource>;

// Returns in words the reason for which libzip refused an archive.
std::string words_of(zip_error_t* error) {
  switch (zip_error_code_zip(error)) {
    case ZIP_ER_NOZIP: return "it is no zip archive";
    case ZIP_ER_INCONS: return "its directory contradicts its members";
    case ZIP_ER_CRC: return "a checksum differs";
    case ZIP_ER_EOF: return "it ends too early";
    case ZIP_ER_MEMORY: return "this machine has not enough memory";
    case ZIP_ER_COMPNOTSUPP: return "its compression is not known";
    default: return "it is damaged";
  }
}

// Opens the archive that make_source gives to libzip.
template <class MakeSource>
Archive open_archive(MakeSource make_source, const std::string& place) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* source = make_source(&error);
  if (source == nullptr) throw Error(kFailed, place, words_of(&error));
  Archive archive(zip_open_from_source(source, ZIP_RDONLY | ZIP_CHECKCONS, &error));
  if (archive == nullptr) {
    zip_source_free(source);
    const std::string words = words_of(&error);
    zip_error_fini(&error);
    throw Error(kBadInput, place, "not a .npz file: " + words, "save it with numpy.savez");
  }
  zip_error_fini(&error);
  return archive;
}

// Reads a member as an array. `left`: bytes that may still be unpacked; the bytes of this member are subtracted.
NpyArray unpack(zip_t* archive, const zip_stat_t& status, const std::string& place,
                const std::function<void(const NpyArray&)>& check, uint64_t* left) {
  const std::unique_ptr<zip_file_t, CloseMember> member(zip_fopen_index(archive, status.index, 0));
  if (member == nullptr) throw Error(kBadInput, place, "cannot be unpacked: " + words_of(zip_get_error(archive)));
  uint64_t taken = 0;
  const auto read = [&](std::span<uint8_t> to) {
    size_t done = 0;
    while (done < to.size()) {  // at the end libzip compares the CRC-32
      const zip_int64_t count = zip_fread(member.get(), to.data() + done, to.size() - done);
      if (count < 0) throw Error(kBadInput, place, "cannot be unpacked: " + words_of(zip_file_get_error(member.get())));
      if (count == 0) break;
      done += size_t(count);
    }
    taken += done;
    return done;
  };
  NpyArray array = read_npy({.read = read, .size = std::nullopt, .most = *left}, place, check);
  *left -= std::min(*left, taken);
  return array;
}

void check_method(const zip_stat_t& status, const std::string& place) {
  constexpr zip_uint64_t kNeeded = ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
  if ((status.valid & kNeeded) != kNeeded) throw Error(kBadInput, place, "its entry in the .npz is incomplete");
  if (status.encryption_method != ZIP_EM_NONE) throw Error(kUnsupported, place, "is encrypted");
  if (status.comp_method != ZIP_CM_STORE && status.comp_method != ZIP_CM_DEFLATE)
    throw Error(kUnsupported, place, "is compressed by method " + std::to_string(status.comp_method),
                "numpy's savez and savez_compressed write what can be read");
}

// Copies the bytes that zip_close() has written into `source`.
std::vector<uint8_t> bytes_of(zip_source_t* source) {
  zip_stat_t status;
  std::vector<uint8_t> bytes;
  if (zip_source_stat(source, &status) == 0 && (status.valid & ZIP_STAT_SIZE) != 0) bytes.resize(status.size);
  const bool whole = !bytes.empty() && zip_source_open(source) == 0 &&
                     zip_source_read(source, bytes.data(), bytes.size()) == zip_int64_t(bytes.size());
  if (!whole) throw Error(kFailed, ".npz", "cannot be packed");
  zip_source_close(source);
  return bytes;
}

NpzArrays read_members(const Archive& archive, const std::string& place, uint64_t most_bytes, const NpyCheck& check) {
  const zip_int64_t members = zip_get_num_entries(archive.get(), 0);
  if (members > kMostMembers) throw Error(kUnsupported, place, "has more than 65536 arrays");
  NpzArrays arrays;
  std::unordered_set<std::string> names;
  uint64_t left = most_bytes;
  for (zip_uint64_t i = 0; i < zip_uint64_t(members); ++i) {
    zip_stat_t status;
    if (zip_stat_index(archive.get(), i, 0, &status) != 0 || (status.valid & ZIP_STAT_NAME) == 0)
      throw Error(kBadInput, place, "its directory is malformed");
    std::string name = status.name;
    const std::string member = place + ": " + name;
    if (!name.ends_with(kSuffix)) throw Error(kBadInput, member, "is no .npy file, so this is no .npz");
    name.resize(name.size() - kSuffix.size());
    if (!names.insert(name).second) throw Error(kBadInput, member, "is there twice");
    check_method(status, member);
    const auto check_member = [&](const NpyArray& header) {
      if (check) check(name, header);
    };
    NpyArray array = unpack(archive.get(), status, member, check_member, &left);
    arrays.emplace_back(std::move(name), std::move(array));
  }
  return arrays;
}

}  // namespace

NpzArrays parse_npz(std::span<const uint8_t> bytes, const std::string& place, uint64_t most_bytes) {
  if (bytes.empty()) throw Error(kBadInput, place, "an empty file");  // libzip takes this for an empty archive
  const auto source = [&](zip_error_t* error) {
    return zip_source_buffer_create(bytes.data(), bytes.size(), 0, error);
  };
  return read_members(open_archive(source, place), place, most_bytes, {});
}

namespace {

// libzip reads an InputFile through this. No exception may pass through libzip, so it is kept and thrown later.
struct ZipInput {
  const InputFile& file;
  zip_uint64_t at = 0;
  zip_error_t error = {};
  std::exception_ptr failure = {};

  explicit ZipInput(const InputFile& input) : file(input) { zip_error_init(&error); }

  zip_int64_t read(void* to, zip_uint64_t size) {
    try {
      const size_t count = file.read(at, std::span(static_cast<uint8_t*>(to), size_t(size)));
      at += count;
      return zip_int64_t(count);
    } catch (const Error&) {
      failure = std::current_exception();
      zip_error_set(&error, ZIP_ER_READ, 0);
      return -1;
    }
  }

  zip_int64_t seek(void* data, zip_uint64_t size) {
    const zip_int64_t to = zip_source_seek_compute_offset(at, file.size(), data, size, &error);
    if (to >= 0) at = zip_uint64_t(to);
    return to < 0 ? -1 : 0;
  }

  static zip_int64_t call(void* context, void* data, zip_uint64_t size, zip_source_cmd_t command) {
    auto& input = *static_cast<ZipInput*>(context);
    switch (command) {
      case ZIP_SOURCE_OPEN: input.at = 0; return 0;
      case ZIP_SOURCE_READ: return input.read(data, size);
      case ZIP_SOURCE_SEEK: return input.seek(data, size);
      case ZIP_SOURCE_TELL: return zip_int64_t(input.at);
      case ZIP_SOURCE_STAT: {
        auto* const status = static_cast<zip_stat_t*>(data);
        zip_stat_init(status);
        status->size = input.file.size();
        status->valid |= ZIP_STAT_SIZE;
        return sizeof *status;
      }
      case ZIP_SOURCE_ERROR: return zip_error_to_data(&input.error, data, size);
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE: return 0;
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
                                              ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
                                              ZIP_SOURCE_SUPPORTS, -1);
      default: zip_error_set(&input.error, ZIP_ER_OPNOTSUPP, 0); return -1;
    }
  }
};

}  // namespace

NpzArrays read_npz(const std::string& path, const NpyCheck& check) {
  const InputFile file(path);  // refuses a folder, pipe, socket or device
  uint8_t head[2] = {};
  if (file.read(0, head) == 0) throw Error(kBadInput, path, "an empty file");
  if (head[0] != 'P' || head[1] != 'K')
    throw Error(kBadInput, path, "not a .npz file: it is no zip archive", "save it with numpy.savez");
  ZipInput input(file);
  const auto source = [&](zip_error_t* error) { return zip_source_function_create(ZipInput::call, &input, error); };
  NpzArrays arrays;
  try {
    arrays = read_members(open_archive(source, path), path, kMostNpyBytes, check);
  } catch (const Error&) {
    if (input.failure) std::rethrow_exception(input.failure);
    throw;
  }
  if (arrays.empty()) throw Error(kBadInput, path, "holds no array", "save it with numpy.savez(FILE, NAME=array)");
  return arrays;
}

std::vector<uint8_t> npz_bytes(const NpzArrays& arrays) {
  if (arrays.empty()) {  // libzip writes no empty archive, so this is the end record alone
    std::vector<uint8_t> bytes = {'P', 'K', 5, 6};
    bytes.resize(22);
    return bytes;
  }
  std::vector<std::vector<uint8_t>> members;  // kept until zip_close, which reads them
  const Source target(zip_source_buffer_create(nullptr, 0, 0, nullptr));
  if (target == nullptr) throw Error(kFailed, ".npz", "cannot be packed");
  Archive archive(zip_open_from_source(target.get(), ZIP_TRUNCATE, nullptr));
  if (archive == nullptr) throw Error(kFailed, ".npz", "cannot be packed");
  zip_source_keep(target.get());  // the archive owns one reference, this function the other
  for (const auto& [name, array] : arrays) members.push_back(npy_bytes(array));
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::string name = arrays[i].first + std::string(kSuffix);
    zip_source_t* source = zip_source_buffer(archive.get(), members[i].data(), members[i].size(), 0);
    const zip_int64_t index = zip_file_add(archive.get(), name.c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      throw Error(kFailed, ".npz", "cannot pack " + name + ": " + words_of(zip_get_error(archive.get())));
    }
    zip_set_file_compression(archive.get(), zip_uint64_t(index), ZIP_CM_STORE, 0);
    zip_file_set_dostime(archive.get(), zip_uint64_t(index), 0, kDosEpoch, 0);
  }
  if (zip_close(archive.get()) != 0)
    throw Error(kFailed, ".npz", "cannot be packed: " + words_of(zip_get_error(archive.get())));
  static_cast<void>(archive.release());
  return bytes_of(target.get());
}

}  // namespace nacre::tools
