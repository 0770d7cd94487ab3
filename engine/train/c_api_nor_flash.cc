// A flash as the storage of checkpoints for C (nacre_c_training.h).
#include "engine/c_api.h"
#include "engine/train/nor_flash.h"

namespace {

using Flash = nacre::NorFlashOf<int>;

Flash flash_of(void* context) {
  const auto& c = *static_cast<const nacre_nor_flash*>(context);
  return {.begin = static_cast<const std::byte*>(c.begin),
          .bytes = c.bytes,
          .program_bytes = c.program_bytes,
          .erase_bytes = c.erase_bytes,
          .program = c.program,
          .erase = c.erase};
}

}  // namespace

extern "C" nacre_status nacre_nor_flash_storage(const nacre_nor_flash* flash, nacre_storage* storage) {
  const bool whole = flash != nullptr && flash->size >= sizeof *flash && flash->begin != nullptr &&
                     flash->program != nullptr && flash->erase != nullptr;
  const bool known = storage != nullptr && storage->size >= offsetof(nacre_storage, filled);
  if (const nacre::Status s = nacre::arguments(whole, known); !s.ok()) return nacre::to_c(s);
  nacre_storage filled = {};
  filled.program_bytes = flash->program_bytes;
  filled.erase_bytes = flash->erase_bytes;
  filled.bytes = flash->bytes;
  filled.context = const_cast<nacre_nor_flash*>(flash);  // only read
  filled.read = [](void* c, uint64_t at, void* to, size_t size) {
    Flash made = flash_of(c);
    return int(made.storage().read(&made, at, {static_cast<std::byte*>(to), size}));
  };
  filled.program = [](void* c, uint64_t at, const void* from, size_t size) {
    Flash made = flash_of(c);
    return int(made.storage().program(&made, at, {static_cast<const std::byte*>(from), size}));
  };
  filled.erase = [](void* c, uint64_t at) {
    Flash made = flash_of(c);
    return int(made.storage().erase(&made, at));
  };
  nacre::give(filled, storage);
  return {};
}
