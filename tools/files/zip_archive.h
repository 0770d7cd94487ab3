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
  // `bytes` must stay unchanged. Throws Error(kBadInput) with `remedy` if they are no archive, a damaged one, or one in
  // which a member's name leads out of it, and Error(kUnsupported) for more than 65,536 members.
  ZipArchive(std::span<const uint8_t> bytes, const std::string& place, const std::string& remedy);
  ~ZipArchive();
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  // Returns the bytes of a member. Returns none if there is no member of this name. Throws Error if it has more than
  // `most` bytes, another checksum, or a compression other than deflate.
  std::vector<uint8_t> member(const std::string& name, uint64_t most) const;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };
  std::unique_ptr<zip, Close> archive_;
  std::string place_, remedy_;
};

}  // namespace nacre::tools
