// Files, limits and results that the parts of the claim forged_checkpoints share.
#pragma once

#include <string>
#include <vector>

#include "tests/claims/measured_tool.h"
#include "tests/run_tool.h"

namespace nacre::test {

struct Bench {
  tools::TemporaryDirectory folder;
  // digits.onnx, two training models, an inference model, 48 rows
  std::string network, model, other, plain, data, labels;
  double most_seconds = 1;  // seconds of the processor, for an answer
  uint64_t most_bytes = 0;  // of memory: 64 MiB (sanitized: 512) more than good runs of eval and convert take
  int every = 1;            // sanitized builds and tests/any_speed.sh try one of so many similar cases

  Bench();
  std::string path(const std::string& name) const { return folder / name; }
};

struct Found {
  uint64_t runs = 0, answered = 0, done = 0, bad = 0;
  double slowest = 0;

  // Counts a run and says what is wrong with it: a crash, no sentence, too much time or too much memory.
  void judge(const Bench& bench, const std::string& what, const Measured& m);
  void fail(const std::string& what);
};

// Forges fields of header, table and note with right checksums, and swaps, cuts and replaces slots.
Found forged_slots(const Bench& bench);
// Uses pipes, folders, sockets, devices and files of 1 TiB as every input of every command.
Found hostile_files(const Bench& bench);
Found interrupted_commands(const Bench& bench);  // SIGTERM at counted calls of the system

std::string sparse_file(const std::string& path, const std::vector<uint8_t>& head);  // of 1 TiB, that begins so
// Makes a pipe, folder, socket, device, empty file or sparse file.
void make_special(const std::string& kind, const std::string& path);

}  // namespace nacre::test
