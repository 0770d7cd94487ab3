// NACRE_CHECK(condition) checks for a programmer's error, never for bad data. Release builds do not contain it.
#pragma once

#ifdef NDEBUG
#define NACRE_CHECK(condition) static_cast<void>(0)
#else
#define NACRE_CHECK(condition) ((condition) ? static_cast<void>(0) : __builtin_trap())
#endif
