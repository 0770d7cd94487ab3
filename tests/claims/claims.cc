#include "tests/claims/claims.h"

#include <cstdio>
#include <cstring>

namespace nacre::test {
namespace {
Claim* claims = nullptr;
}

Claim::Claim(const char* claim_name, int (*claim_run)(int, char**)) : name(claim_name), run(claim_run), next(claims) {
  claims = this;
}

}  // namespace nacre::test

int main(int count, char** arguments) {
  using namespace nacre::test;
  for (const Claim* claim = claims; count > 1 && claim != nullptr; claim = claim->next)
    if (std::strcmp(claim->name, arguments[1]) == 0) return claim->run(count - 1, arguments + 1);
  std::printf("claims NAME [ARGUMENT...], of\n");
  for (const Claim* claim = claims; claim != nullptr; claim = claim->next) std::printf("  %s\n", claim->name);
  return 2;
}
