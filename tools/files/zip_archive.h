// Members of a zip archive in memory. Nothing is unpacked to disk; what is read is bounded, whatever it says of itself.
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
  // `bytes` stay as they are. Throws Error(kBadInput): no archive, or a damaged one, or a member whose name leads out
  // of it; `remedy` stands in every refusal.
  ZipArchive(std::span<const uint8_t> bytes, const std::string& place, const std::string& remedy);
  ~ZipArchive();
  ZipArchive(const ZipArchive&) = delete;
  ZipArchive& operator=(const ZipArchive&) = delete;

  // A member of at most `most` bytes, its checksum compared; empty where there is none of this name.
  std::vector<uint8_t> member(const std::string& name, uint64_t most) const;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };
  std::unique_ptr<zip, Close> archive_;
  std::string place_, remedy_;
};

}  // namespace nacre::tools
