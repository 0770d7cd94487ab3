// NACRE_CHECK(condition) traps if the condition, which a programmer promises, is false. Builds with NDEBUG skip it.
#pragma once

#ifdef NDEBUG
#define NACRE_CHECK(condition) static_cast<void>(0)
#else
#define NACRE_CHECK(condition) ((condition) ? static_cast<void>(0) : __builtin_trap())
#endif
