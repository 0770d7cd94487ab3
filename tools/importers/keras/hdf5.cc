// The parent's side of hdf5.h: starts the child process, reads its records, and reports how it ended.
#include "tools/importers/keras/hdf5.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "engine/numeric/small_float.h"
#include "tools/base/budget.h"
#include "tools/base/error.h"
#include "tools/base/product.h"
#include "tools/importers/keras/hdf5_child.h"

namespace nacre::tools {
namespace {

constexpr rlim_t kChildMemory = rlim_t{1} << 30;  // in addition to this process's memory and the file's bytes
constexpr int kChildSeconds = 30, kBytesPerSecond = 1 << 25;
constexpr char kSaveAgain[] = "open it in Keras and save it again";

// Returns the bytes of address space that this process has.
uint64_t address_space() {
  unsigned long pages = 0;
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  if (std::fscanf(file, "%lu", &pages) != 1) pages = 0;
  std::fclose(file);
  return uint64_t{pages} * uint64_t(sysconf(_SC_PAGESIZE));
}

void limit(int resource, rlim_t most) {
  const rlimit both = {most, most};
  setrlimit(resource, &both);
}

// Restricts the child: its time and memory are limited, it writes no file or core dump, and it prints nothing.
void confine(int seconds, uint64_t memory) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGPIPE})
    std::signal(signal, SIG_DFL);
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_FSIZE, 0);
  const rlimit time = {kHdf5Seconds, rlim_t(seconds)};  // the child raises the first limit as it reads
  setrlimit(RLIMIT_CPU, &time);
  if (!kSanitized) limit(RLIMIT_AS, memory);  // AddressSanitizer's own tables take terabytes of address space
  const int nowhere = open("/dev/null", O_RDWR);
  for (int file = 0; nowhere >= 0 && file < 3; ++file) dup2(nowhere, file);
  alarm(unsigned(seconds));
}

class Child {
 public:
  Child(std::span<const uint8_t> bytes, const std::vector<std::string>& skipped, const std::string& place)
      : place_(place), most_(Budget::kBytes + Budget::kTimes * bytes.size()) {
    const int seconds = kChildSeconds + int(bytes.size() / kBytesPerSecond);
    end_ = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    const uint64_t memory = address_space() + 4 * bytes.size() + kChildMemory;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(kFailed, place, "no pipe for a process that reads it");
    process_ = fork();
    if (process_ == 0) {
      close(ends[0]);
      const int out = fcntl(ends[1], F_DUPFD_CLOEXEC, 3);  // above the numbers of stdin, stdout and stderr
      if (out < 0) _exit(1);
      confine(seconds, memory);
      try {
        send_hdf5(bytes, skipped, most_, out);
      } catch (...) {  // out of memory
        _exit(2);
      }
      _exit(0);
    }
    close(ends[1]);
    pipe_ = ends[0];
    if (process_ < 0) throw Error(kFailed, place, "no process that reads it can be started");
  }
  ~Child() {
    if (pipe_ >= 0) close(pipe_);
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void read(void* to, size_t size) {
    auto* at = static_cast<uint8_t*>(to);
    while (size > 0) {
      wait_for_data();
      const ssize_t count = ::read(pipe_, at, size);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) fell_silent();
      at += count;
      size -= size_t(count);
    }
  }
  template <class T>
  T number() {
    T value;
    read(&value, sizeof value);
    return value;
  }
  std::string text() {
    const auto size = number<uint32_t>();
    if (size > kMostHdf5Text || (text_ += size + kHdf5TextBytes) > 2 * uint64_t{kMostHdf5Text}) garbled();
    std::string text(size, '\0');
    read(text.data(), size);
    return text;
  }
  Hdf5Dataset dataset() {
    Hdf5Dataset made;
    made.type = ElementType(number<uint8_t>());
    const auto rank = number<uint8_t>();
    if (rank > kMostHdf5Rank || size_of(made.type) == 0) garbled();
    uint64_t expected = size_of(made.type);
    for (int i = 0; i < rank; ++i) {
      const auto dim = number<uint64_t>();
      if (dim > uint64_t{INT64_MAX} || __builtin_mul_overflow(expected, dim, &expected)) garbled();
      made.dims.push_back(int64_t(dim));
    }
    made.offset = number<uint64_t>();
    const auto size = number<uint64_t>();
    if (size != expected || size > most_) garbled();
    most_ -= size;
    made.bytes.resize(size);
    read(made.bytes.data(), size);
    return made;
  }
  void count_object() {
    if (++objects_ > kMostHdf5Objects) garbled();
  }
  [[noreturn]] void garbled() { throw Error(kBadInput, place_, "is damaged: libhdf5 lost its way in it", kSaveAgain); }

 private:
  // Returns the bytes of an element of this type; 0 for a type that the child does not send.
  static uint64_t size_of(ElementType type) {
    switch (type) {
      case ElementType::kInt8:
      case ElementType::kUint8: return 1;
      case ElementType::kFloat16:
      case ElementType::kBfloat16: return 2;
      case ElementType::kFloat32:
      case ElementType::kInt32: return 4;
      case ElementType::kFloat64:
      case ElementType::kInt64: return 8;
      default: return 0;
    }
  }

  void wait_for_data() {
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now());
      if (left.count() <= 0) too_long();
      pollfd wait = {pipe_, POLLIN, 0};
      const int ready = poll(&wait, 1, int(std::min<int64_t>(left.count(), 1'000'000)));
      if (ready > 0) return;
      if (ready < 0 && errno != EINTR) fell_silent();
    }
  }
  [[noreturn]] void too_long() {
    throw Error(kBadInput, place_, "is damaged: libhdf5 does not come to an end with it", kSaveAgain);
  }
  [[noreturn]] void fell_silent() {
    int status = 0;
    while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    if (WIFSIGNALED(status) && (WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGALRM)) too_long();
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
      throw Error(kBadInput, place_, "is damaged: libhdf5 asks for more memory than a file of its size may need",
                  kSaveAgain);
    throw Error(kBadInput, place_, "is damaged: libhdf5 crashed on it, in a process of its own", kSaveAgain);
  }

  const std::string& place_;
  uint64_t most_, text_ = 0;
  uint32_t objects_ = 0;
  pid_t process_ = -1;
  int pipe_ = -1;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace

int64_t Hdf5Dataset::elements() const { return product_of(dims); }

namespace {

template <class T>
std::vector<float> as_reals(const std::vector<uint8_t>& bytes) {
  std::vector<float> reals(bytes.size() / sizeof(T));
  for (size_t i = 0; i < reals.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    reals[i] = float(element);
  }
  return reals;
}

}  // namespace

std::vector<float> Hdf5Dataset::reals() const {
  switch (type) {
    case ElementType::kFloat16: return as_reals<Float16>(bytes);
    case ElementType::kBfloat16: return as_reals<Bfloat16>(bytes);
    case ElementType::kFloat32: return as_reals<float>(bytes);
    case ElementType::kFloat64: return as_reals<double>(bytes);
    case ElementType::kInt8: return as_reals<int8_t>(bytes);
    case ElementType::kUint8: return as_reals<uint8_t>(bytes);
    case ElementType::kInt32: return as_reals<int32_t>(bytes);
    default: return as_reals<int64_t>(bytes);
  }
}

namespace {

bool lies_in(std::span<const uint8_t> file, const Hdf5Dataset& dataset) {
  const size_t size = dataset.bytes.size();
  return dataset.offset <= file.size() && size <= file.size() - dataset.offset &&
         std::equal(dataset.bytes.begin(), dataset.bytes.end(), file.begin() + ptrdiff_t(dataset.offset));
}

}  // namespace

Hdf5File read_hdf5(std::span<const uint8_t> bytes, const std::string& place, const std::vector<std::string>& skipped) {
  Child child(bytes, skipped, place);
  Hdf5File file;
  for (;;) {
    child.count_object();
    switch (child.number<Hdf5Record>()) {
      case Hdf5Record::kDataset: {
        const std::string path = child.text();
        Hdf5Dataset& dataset = file.datasets[path] = child.dataset();
        if (!lies_in(bytes, dataset)) dataset.offset = 0;
        break;
      }
      case Hdf5Record::kText: {
        const std::string path = child.text(), name = child.text();
        const auto count = child.number<uint32_t>();
        std::vector<std::string>& texts = file.texts[path][name];
        for (uint32_t i = 0; i < count; ++i) texts.push_back(child.text());
        break;
      }
      case Hdf5Record::kRefused: throw Error(kBadInput, place, child.text(), kSaveAgain);
      case Hdf5Record::kEnd: return file;
      default: child.garbled();
    }
  }
}

}  // namespace nacre::tools
