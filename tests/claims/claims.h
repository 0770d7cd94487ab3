// Most C++ claims of the project are one program: claim_tests NAME [ARGUMENT...]. Each claim is defined in the file of
// its name:
//
//   NACRE_CLAIM(op_table) {
//     ...  // count and arguments as of main(), from the name on; prints "CLAIM op_table ..."
//   }        // 0: shown, 77: skipped, else not shown
#pragma once

namespace nacre::test {

struct Claim {
  Claim(const char* claim_name, int (*claim_run)(int, char**));

  const char* name;
  int (*run)(int count, char** arguments);
  Claim* next;
};

}  // namespace nacre::test

#define NACRE_CLAIM(name)                                                 \
  static int claim_##name(int count, char** arguments);                   \
  static const nacre::test::Claim registered_##name(#name, claim_##name); \
  static int claim_##name([[maybe_unused]] int count, [[maybe_unused]] char** arguments)
