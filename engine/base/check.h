// NACRE_CHECK(condition): a programmer's error, never bad data. Gone in release builds.
#pragma once

#ifdef NDEBUG
#define NACRE_CHECK(condition) static_cast<void>(0)
#else
#define NACRE_CHECK(condition) ((condition) ? static_cast<void>(0) : __builtin_trap())
#endif
