#include "tools/files/element_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#include "tools/base/error.h"
#include "tools/base/format.h"
#include "tools/files/temporary_directory.h"

namespace nacre::tools {

std::string temporary_directory() {
  const char* const named = std::getenv("TMPDIR");
  return named != nullptr && *named != 0 ? named : "/var/tmp";
}
namespace {

constexpr size_t kLeastGrowth = size_t{64} << 20;
constexpr size_t kMostResident = size_t{32} << 20;  // bytes passed until pages are released
constexpr size_t kFaultBytes = size_t{64} << 10;    // Linux maps this many bytes around a byte that is read

[[noreturn]] void fail(size_t bytes, int error) {
  throw Error(kIo, temporary_directory(),
              fmt::format("has no place for a temporary file of {} bytes, into which large arrays are unpacked: {}",
                          grouped(bytes), std::generic_category().message(error)),
              "free some space there, or name another directory with the variable TMPDIR");
}

int open_nameless(size_t bytes) {
  const std::string directory = temporary_directory();
  int file = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0) return file;
  std::string name = directory + "/nacre-XXXXXX";  // for file systems without O_TMPFILE
  file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) fail(bytes, errno);
  unlink(name.c_str());
  return file;
}

}  // namespace

struct ElementBytes::Block {
  std::vector<uint8_t> held;
  int file = -1;
  uint8_t* mapped = nullptr;
  size_t size = 0, capacity = 0, written = 0;  // all of the file; bytes beyond `written` are 0
  std::atomic<size_t> passed = 0;

  Block() = default;
  explicit Block(std::vector<uint8_t> bytes) : held(std::move(bytes)) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    if (mapped != nullptr) munmap(mapped, capacity);
    if (file >= 0) close(file);
  }

  size_t bytes() const { return file < 0 ? held.size() : size; }
  uint8_t* data() { return file < 0 ? held.data() : mapped; }

  void let_go() {
    passed = 0;
    if (mapped != nullptr) madvise(mapped, capacity, MADV_DONTNEED);
  }

  // Allocates the disk blocks before it writes to them: a full disk gives an Error and no SIGBUS.
  void grow_file(size_t wanted) {
    if (wanted <= capacity) return;
    const size_t grown = std::max(wanted, capacity == 0 ? wanted : capacity + std::max(kLeastGrowth, capacity / 4));
    if (file < 0) file = open_nameless(wanted);
    if (const int error = posix_fallocate(file, off_t(capacity), off_t(grown - capacity)); error != 0)
      fail(grown, error);
    void* const made = mmap(nullptr, grown, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (made == MAP_FAILED) fail(grown, errno);
    if (mapped != nullptr) munmap(mapped, capacity);
    mapped = static_cast<uint8_t*>(made);
    capacity = grown;
  }

  void copy_in(std::span<const uint8_t> from, size_t at) {
    for (size_t done = 0; done < from.size(); done += kPartBytes) {
      const size_t count = std::min(kPartBytes, from.size() - done);
      std::memcpy(mapped + at + done, from.data() + done, count);
      if ((passed += count) >= kMostResident) let_go();
    }
    written = std::max(written, at + from.size());
  }

  void resize(size_t wanted) {
    if (file < 0 && wanted <= kMostHeldBytes) return held.resize(wanted);
    const bool moves = file < 0;
    grow_file(wanted);
    if (moves) {
      copy_in(held, 0);
      size = held.size();
      std::vector<uint8_t>().swap(held);
    }
    if (wanted > size && written > size) std::memset(mapped + size, 0, std::min(wanted, written) - size);
    size = wanted;
    written = std::max(written, wanted);
  }
};

ElementBytes::ElementBytes(std::vector<uint8_t> bytes) {
  if (!bytes.empty()) block_ = std::make_shared<Block>(std::move(bytes));
}

size_t ElementBytes::size() const { return block_ ? block_->bytes() : 0; }
bool ElementBytes::in_file() const { return block_ && block_->file >= 0; }
const uint8_t* ElementBytes::data() const { return block_ ? block_->data() : nullptr; }
uint8_t* ElementBytes::data() { return block_ ? own().data() : nullptr; }

ElementBytes::Block& ElementBytes::own() {
  if (!block_) block_ = std::make_shared<Block>();
  if (block_.use_count() == 1) return *block_;
  const std::shared_ptr<Block> shared = std::move(block_);
  block_ = std::make_shared<Block>();
  block_->resize(shared->bytes());
  if (block_->file < 0) std::copy_n(shared->data(), shared->bytes(), block_->held.begin());
  else block_->copy_in({shared->data(), shared->bytes()}, 0);
  shared->let_go();
  return *block_;
}

void ElementBytes::resize(size_t size) { own().resize(size); }

void ElementBytes::append(std::span<const uint8_t> bytes) {
  Block& block = own();
  const size_t at = block.bytes();
  block.resize(at + bytes.size());
  if (block.file < 0) std::ranges::copy(bytes, block.held.begin() + std::ptrdiff_t(at));
  else block.copy_in(bytes, at);
}

void ElementBytes::passed(size_t bytes) const {
  if (in_file() && (block_->passed += std::max(bytes, kFaultBytes)) >= kMostResident) block_->let_go();
}

}  // namespace nacre::tools
