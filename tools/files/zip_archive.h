// ZipArchive: reads members of a zip archive in memory. Nothing is unpacked to disk. Sizes that the archive declares
// are checked against limits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct zip;

namespace nacre::tools {

class ZipArchive {
 public:
  // `bytes` must stay unchanged. Throws Error(kBadInput) if they are no archive, a damaged one, or one in which a
  // member's name leads out of it. `remedy` stands in every refusal.
  ZipArchive(std::span<const uint8_t> bytes, const std::string& place, const std::string& remedy);
  ~ZipArchive();
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  // Returns a member of at most `most` bytes, and checks its checksum. Returns empty if there is no member of this
  // name.
  std::vector<uint8_t> member(const std::string& name, uint64_t most) const;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };
  std::unique_ptr<zip, Close> archive_;
  std::string place_, remedy_;
};

}  // namespace nacre::tools
