// EVP_Digest would link every algorithm of OpenSSL and read its settings file: 4 MB of a static program for one digest.
// SHA256_Update links 40 kB.
#include "tools/base/sha256.h"

#include "tools/base/error.h"

namespace nacre::tools {
namespace {

void require(int done) {
  if (done != 1) throw Error(kFailed, "SHA-256", "the library refused");
}

}  // namespace

Sha256::Sha256() { require(SHA256_Init(&context_)); }

void Sha256::add(std::span<const uint8_t> bytes) { require(SHA256_Update(&context_, bytes.data(), bytes.size())); }

std::array<uint8_t, 32> Sha256::finish() {
  std::array<uint8_t, 32> hash;
  require(SHA256_Final(hash.data(), &context_));
  return hash;
}

std::array<uint8_t, 32> sha256_digest(std::span<const uint8_t> bytes) {
  Sha256 hash;
  hash.add(bytes);
  return hash.finish();
}

}  // namespace nacre::tools
