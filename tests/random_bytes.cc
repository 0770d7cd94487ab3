// random_bytes SEED COUNT: COUNT bytes on stdout, the top byte of each value of splitmix64 (Steele, Lea, Flood 2014),
// so that a shell script has inputs that look random and are the same everywhere.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: random_bytes SEED COUNT\n");
    return 2;
  }
  uint64_t state = std::strtoull(arguments[1], nullptr, 10);
  for (long i = std::strtol(arguments[2], nullptr, 10); i > 0; --i) {
    uint64_t z = state += 0x9E3779B97F4A7C15;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
    z ^= z >> 31;
    if (std::putchar(int(z >> 56)) == EOF) return 1;
  }
  return 0;
}
