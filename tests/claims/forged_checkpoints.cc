// Claim: whatever a checkpoint's slots contain or are, each command that reads them ends within a second of processor
// time, in at most 64 MiB more memory than with good slots. It ends with success or with one sentence. So does every
// command with an input that is no file, or is a file of 1 TiB. SIGTERM ends every command within a second, with its
// output files whole or absent.
#include "tests/claims/forged_checkpoints.h"
#include "tests/claims/claims.h"
#include "tests/sanitized.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include "tools/files/npy.h"

namespace nacre::test {
namespace {

void write_rows(const std::string& from, const std::string& to, int64_t rows) {
  tools::NpyArray array = tools::read_npy(from);
  array.data.resize(array.data.size() / size_t(array.dims[0]) * size_t(rows));
  array.dims[0] = rows;
  tools::write_npy(to, array);
}

void make(const Arguments& arguments) {
  const Measured m = run_measured(arguments);
  if (m.exit_code != 0) throw std::runtime_error(arguments[0] + ": " + m.error);
}

}  // namespace

Bench::Bench()
    : network(tools::project_path("tools/samples/digits.onnx")), model(path("train.nacre")), other(path("other.nacre")),
      plain(path("plain.nacre")), data(path("x.npy")), labels(path("y.npy")) {
  write_rows(tools::project_path("tools/samples/digits_images.npy"), data, 48);
  write_rows(tools::project_path("tools/samples/digits_labels.npy"), labels, 48);
  make({"convert", network, "-o", model, "--train", "softmax_cross_entropy", "--train-last", "2", "--optimizer", "adam",
        "--batch", "16"});
  make({"convert", network, "-o", other, "--train", "softmax_cross_entropy", "--train-last", "3", "--batch", "16"});
  make({"convert", network, "-o", plain});
  const bool sanitized = nacre::test::sanitized();
  most_seconds = sanitized ? 20 : 1;
  every = sanitized ? 75 : std::getenv("NACRE_ANY_SPEED") != nullptr ? 25 : 1;
  const Measured good = run_measured({"eval", plain, "--data", data, "--labels", labels, "--cast-inputs"});
  const Measured policy =
      run_measured({"convert", network, "-o", path("policy.nacre"), "--policy", "float8_from_float32"});
  most_bytes = std::max(good.peak_bytes, policy.peak_bytes) + (uint64_t{sanitized ? 512u : 64u} << 20);
}

void Found::fail(const std::string& what) {
  if (++bad <= 20) std::printf("BAD %s\n", what.c_str());
}

void Found::judge(const Bench& bench, const std::string& what, const Measured& m) {
  ++runs;
  ++(m.exit_code == 0 ? done : answered);
  slowest = std::max(slowest, m.seconds);
  const auto say = [&](const std::string& why) { fail(what + ": " + why + ": " + m.error.substr(0, 300)); };
  if (m.hung) say("did not end");
  else if (m.signal != 0) say("ended by signal " + std::to_string(m.signal));
  else if (m.exit_code != 0 && !is_one_sentence(m.error))
    say("exit code " + std::to_string(m.exit_code) + " without one sentence");
  if (m.seconds > bench.most_seconds) say("took " + std::to_string(m.seconds) + " s of the processor");
  if (m.peak_bytes > bench.most_bytes) say("took " + std::to_string(m.peak_bytes >> 20) + " MiB");
}

std::string sparse_file(const std::string& path, const std::vector<uint8_t>& head) {
  tools::write_bytes(path, head);
  // smaller if the file system has a lower limit
  for (off_t size = off_t{1} << 40; truncate(path.c_str(), size) != 0; size /= 2)
    if (size < off_t{1} << 33) throw std::runtime_error("no sparse file can be made");
  return path;
}

void make_special(const std::string& kind, const std::string& path) {
  unlink(path.c_str());
  int made = 0;
  if (kind == "pipe") made = mkfifo(path.c_str(), 0666);
  if (kind == "folder") made = mkdir(path.c_str(), 0777);
  if (kind == "device") made = symlink("/dev/zero", path.c_str());
  if (kind == "empty") tools::write_bytes(path, {});
  if (kind == "sparse") sparse_file(path, {});
  if (kind == "socket") {
    sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
    const int end = socket(AF_UNIX, SOCK_STREAM, 0);
    std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
    made = bind(end, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    close(end);
  }
  if (made != 0) throw std::runtime_error(kind + " cannot be made");
}

}  // namespace nacre::test

NACRE_CLAIM(forged_checkpoints) {
  using namespace nacre::test;
  const Bench bench;
  const Found slots = forged_slots(bench), files = hostile_files(bench), signals = interrupted_commands(bench);
  const uint64_t bad = slots.bad + files.bad + signals.bad;
  std::printf(
      "slots: %llu runs, %llu refused in one sentence, %llu done, slowest %.3f s\nfiles: %llu runs, %llu refused, "
      "slowest %.3f s\n",
      (unsigned long long)slots.runs, (unsigned long long)slots.answered, (unsigned long long)slots.done, slots.slowest,
      (unsigned long long)files.runs, (unsigned long long)files.answered, files.slowest);
  std::printf("signals: %llu runs, %llu ended by SIGTERM, %llu were done, slowest %.3f s after it\n",
              (unsigned long long)signals.runs, (unsigned long long)signals.answered, (unsigned long long)signals.done,
              signals.slowest);
  if (bad != 0 || slots.done < 10 || slots.answered < 10 || files.answered < 10) {
    std::printf("CLAIM forged_checkpoints NOT SHOWN: %llu runs of %llu are bad\n", (unsigned long long)bad,
                (unsigned long long)(slots.runs + files.runs + signals.runs));
    return 1;
  }
  std::printf(
      "CLAIM forged_checkpoints %s: %llu runs with forged, swapped, cut, foreign and sparse slots, %llu with inputs "
      "that are no files or of "
      "1 TiB, each done or refused in one sentence within %.0f s of the processor and 64 MiB; ",
      signals.runs > 0 ? "shown" : "partly shown", (unsigned long long)slots.runs, (unsigned long long)files.runs,
      bench.most_seconds);
  if (signals.runs == 0) {
    std::printf("no SIGTERM at counted calls: a process may not trace its child here\n");
    return 77;
  }
  std::printf("%llu SIGTERMs at counted calls, each obeyed within a second, files whole or not there\n",
              (unsigned long long)signals.runs);
  return 0;
}
