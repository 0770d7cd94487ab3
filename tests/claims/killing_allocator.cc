#include "tests/claims/killing_allocator.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

bool armed = false;
std::atomic<uint64_t> calls = 0;

void trap() {
  calls.fetch_add(1, std::memory_order_relaxed);
  if (!armed) return;
  constexpr char kText[] = "an allocation while armed\n";
  if (write(2, kText, sizeof kText - 1) < 0) _exit(nacre::test::kTrapped + 1);
  _exit(nacre::test::kTrapped);
}

}  // namespace

#if defined(__has_feature)  // only clang has it
#if __has_feature(address_sanitizer)
#define NACRE_ADDRESS_SANITIZER
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define NACRE_ADDRESS_SANITIZER
#endif

#ifdef NACRE_ADDRESS_SANITIZER
// AddressSanitizer replaces malloc, and calls these hooks for every allocation, also by operator new.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*, size_t),
                                                         void (*on_free)(const volatile void*));
namespace {
const int kInstalled = __sanitizer_install_malloc_and_free_hooks([](const volatile void*, size_t) { trap(); },
                                                                 [](const volatile void*) { trap(); });
}  // namespace
#else
extern "C" {
void* __libc_malloc(size_t);
void __libc_free(void*);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

void* malloc(size_t bytes) { return trap(), __libc_malloc(bytes); }
void free(void* p) { trap(), __libc_free(p); }
void* calloc(size_t count, size_t bytes) { return trap(), __libc_calloc(count, bytes); }
void* realloc(void* p, size_t bytes) { return trap(), __libc_realloc(p, bytes); }
void* memalign(size_t alignment, size_t bytes) { return trap(), __libc_memalign(alignment, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return trap(), __libc_memalign(alignment, bytes); }
int posix_memalign(void** p, size_t alignment, size_t bytes) {
  trap();
  *p = __libc_memalign(alignment, bytes);
  return *p == nullptr ? 12 : 0;
}
}
#endif

namespace nacre::test {
namespace {

void* volatile kept;  // holds what is allocated on purpose

}  // namespace

void arm(bool now) { armed = now; }

uint64_t allocator_calls() { return calls; }

bool traps(void (*act)()) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (freopen("/dev/null", "w", stderr) == nullptr) _exit(1);
    arm(true);
    act();
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == kTrapped;
}

bool allocator_works() {
  return traps([] { kept = std::malloc(16); }) && traps([] { kept = ::operator new(16); }) &&
         traps([] { kept = std::calloc(4, 4); }) && !traps([] {});
}

}  // namespace nacre::test
