#include "tools/files/side_files.h"

#include "tools/files/atomic_file.h"

namespace nacre::tools {

constexpr int kPatienceMs = 2000;

const Error* SideFiles::write(const std::string& path, std::string_view text, bool last) {
  const bool failed = failed_.contains(path);
  if (failed && !last) return nullptr;
  try {
    write_file_whole(path, text, kPatienceMs);
    failed_.erase(path);
    return nullptr;
  } catch (const Error& error) {
    const Error& kept = failed_.insert_or_assign(path, error).first->second;
    return failed ? nullptr : &kept;
  }
}

void SideFiles::require_written(const std::string& what_is) const {
  if (failed_.empty()) return;
  Error error = failed_.begin()->second;
  static_cast<std::runtime_error&>(error) = std::runtime_error(error.what() + ("; " + escaped(what_is)));
  throw error;
}

}  // namespace nacre::tools
