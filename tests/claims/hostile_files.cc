// The inputs of forged_checkpoints. Every file that a command reads is given as a pipe, a folder, a socket, a device,
// an empty file, and as a file of 1 TiB that is a hole or has a good beginning.
#include <filesystem>

#include "tests/claims/forged_checkpoints.h"

namespace nacre::test {
namespace {

namespace fs = std::filesystem;

struct Input {
  const char* extension;
  Arguments arguments;  // the file is FILE, or comes after a =
  std::string good;     // the beginning of such a file; "": unknown
};

std::vector<Input> inputs(const Bench& b) {
  const std::string out = b.path("out");
  std::vector<Input> all;
  const auto add = [&](const char* extension, const std::string& good, const Arguments& arguments) {
    all.push_back({extension, arguments, good});
  };
  for (const char* command : {"inspect", "size", "check", "kernels", "run", "bench"})
    add("nacre", b.plain, {command, "FILE"});
  add("npy", b.data, {"run", b.plain, "--input", "pixels=FILE"});
  add("bin", b.data, {"run", b.plain, "--input", "pixels=FILE"});
  add("nacre", b.plain, {"compare", b.plain, "FILE", "--data", b.data});
  add("npy", b.data, {"compare", b.plain, b.plain, "--data", "FILE"});
  add("npz", "", {"compare", b.plain, b.plain, "--data", "FILE"});
  add("nacre", b.plain, {"eval", "FILE", "--data", b.data, "--labels", b.labels});
  add("npy", b.data, {"eval", b.plain, "--data", "FILE", "--labels", b.labels});
  add("npy", b.labels, {"eval", b.plain, "--data", b.data, "--labels", "FILE", "--cast-inputs"});
  add("onnx", b.network, {"search", "FILE", "--data", b.data, "--labels", b.labels, "--max-drop", "0", "-o", out});
  add("npy", b.data, {"search", b.network, "--data", "FILE", "--labels", b.labels, "--max-drop", "0", "-o", out});
  add("npy", b.data, {"report", b.plain, "--data", "FILE", "--labels", b.labels, "-o", out});
  add("onnx", b.network, {"convert", "FILE", "-o", out});
  add("json", "", {"convert", b.network, "--policy-file", "FILE", "-o", out});
  add("npy", b.data, {"convert", b.network, "--policy", "int8/static_from_float32", "--calibrate", "FILE", "-o", out});
  add("npz", "", {"convert", b.network, "--policy", "int8/static_from_float32", "--calibrate", "FILE", "-o", out});
  add("nacre", b.model, {"tune", "FILE", "--data", b.data, "--labels", b.labels, "-o", out});
  add("onnx", b.network,
      {"tune", "FILE", "--loss", "softmax_cross_entropy", "--data", b.data, "--labels", b.labels, "-o", out});
  add("npy", b.data, {"tune", b.model, "--data", "FILE", "--labels", b.labels, "-o", out});
  add("npy", b.labels, {"tune", b.model, "--data", b.data, "--labels", "FILE", "--cast-samples", "-o", out});
  add("npy", b.labels,
      {"tune", b.model, "--data", b.data, "--labels", b.labels, "--cast-samples", "--validate", "FILE", "-o", out});
  add("dir", "",
      {"tune", b.model, "--data", b.data, "--labels", b.labels, "--cast-samples", "--start-from", "FILE", "-o", out});
  add("nacre", b.model, {"export", "FILE", "--checkpoint", b.path("good"), "-o", out});
  add("onnx", b.network, {"export", b.model, "--checkpoint", b.path("good"), "--network", "FILE", "-o", out});
  add("onnx", b.network, {"export", b.model, "--checkpoint", b.path("good"), "--network", "FILE", "--onnx", "-o", out});
  add("dir", "", {"export", b.model, "--checkpoint", "FILE", "-o", out});
  return all;
}

void judge(const Bench& bench, const Input& input, const std::string& kind, Found* found) {
  const std::string path = bench.path(std::string("hostile.") + input.extension);
  fs::remove_all(path);
  if (kind == "good head") {
    std::vector<uint8_t> head = tools::read_bytes(input.good);
    head.resize(std::min<size_t>(head.size(), 4000));
    sparse_file(path, head);
  } else {
    make_special(kind, path);
  }
  Arguments arguments = input.arguments;
  std::string what = kind + " as";
  for (std::string& a : arguments) {
    what += " " + a;
    if (const size_t at = a.find("FILE"); at != a.npos && (at == 0 || a[at - 1] == '=')) a.replace(at, 4, path);
  }
  const uint64_t done = found->done;
  found->judge(bench, what, run_measured(arguments));
  if (found->done != done) found->fail(what + ": was taken");
  if (fs::exists(bench.path("out"))) found->fail(what + ": something was written");
  fs::remove_all(bench.path("out"));
  fs::remove_all(path);
}

}  // namespace

Found hostile_files(const Bench& bench) {
  Found found;
  int number = 0;
  for (const Input& input : inputs(bench))
    for (const char* kind : {"pipe", "folder", "socket", "device", "empty", "sparse", "good head"}) {
      if (std::string(kind) == "good head" && input.good.empty()) continue;
      if (number++ % (bench.every > 1 ? 4 : 1) == 0) judge(bench, input, kind, &found);
    }
  return found;
}

}  // namespace nacre::test
