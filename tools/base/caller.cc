#include "tools/base/caller.h"

namespace nacre::tools {
namespace {

thread_local Caller* caller_of_thread = nullptr;

}  // namespace

Caller* caller() { return caller_of_thread; }

CallerScope::CallerScope(Caller& caller) : before_(caller_of_thread) { caller_of_thread = &caller; }
CallerScope::~CallerScope() { caller_of_thread = before_; }

void require_not_interrupted() {
  if (caller_of_thread != nullptr && caller_of_thread->interrupted()) throw Interrupted();
}

}  // namespace nacre::tools
