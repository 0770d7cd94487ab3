// Libraries that are found when a program runs: driver.h, cublaslt.h and nccl.h each list their functions as
//
//   F(name in the struct of the library, symbol, result, (arguments))
//
// and the lines below make of such a list the members of the struct, and what loads them.
#pragma once

#define NACRE_LIBRARY_MEMBER(name, symbol, result, arguments) result(*name) arguments;

// Used in a function with the dlopened `library`, the struct `functions` and `whole`: false where one is missing.
#define NACRE_LIBRARY_LOAD(name, symbol, result, arguments)                             \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #symbol)); \
  whole &= functions.name != nullptr;
