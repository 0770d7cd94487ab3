// SHA-256 of bytes that arrive in parts, by OpenSSL's own loops for this processor.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#define OPENSSL_SUPPRESS_DEPRECATED  // sha256.cc tells why these functions are called
#include <openssl/sha.h>

namespace nacre::tools {

class Sha256 {
 public:
  Sha256();
  void add(std::span<const uint8_t> bytes);
  std::array<uint8_t, 32> finish();

 private:
  SHA256_CTX context_;
};

// Returns the digest of bytes that are all in memory.
std::array<uint8_t, 32> sha256_digest(std::span<const uint8_t> bytes);

}  // namespace nacre::tools
