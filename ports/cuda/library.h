// Loads libraries when a program runs. driver.h, cublaslt.h and nccl.h each list their functions as
//
//   F(name in the struct of the library, symbol, result, (arguments))
//
// The macros below make the members of the struct from such a list, and the code that loads them.
#pragma once

#define NACRE_LIBRARY_MEMBER(name, symbol, result, arguments) result(*name) arguments;

// Used in a function that has the dlopened `library`, the struct `functions` and `whole`. Sets `whole` to false if a
// function is missing.
#define NACRE_LIBRARY_LOAD(name, symbol, result, arguments)                             \
  functions.name = reinterpret_cast<decltype(functions.name)>(dlsym(library, #symbol)); \
  whole &= functions.name != nullptr;
