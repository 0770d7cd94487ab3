// The signals of claim forged_checkpoints. SIGTERM comes at counted system calls, not at times, in the second half of
// every command's calls. It also comes in the middle of a training step that takes seconds.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>

#include "tests/claims/forged_checkpoints.h"
#include "tools/files/npy.h"

namespace nacre::test {
namespace {

namespace fs = std::filesystem;

class Interrupted {
 public:
  explicit Interrupted(const Bench& bench) : bench_(bench), out_(bench.path("signals")) {}

  Found all() {
    if (!can_count_calls()) {
      std::printf("signals: left out, a process may not trace its child here\n");
      return found_;
    }
    const std::string& b = bench_.plain;
    at_counted_calls({"convert", bench_.network, "-o", out_ + "/m.nacre", "--golden", "2"});
    at_counted_calls({"kernels", b, "-o", out_ + "/m.h"});
    at_counted_calls({"inspect", b, "--svg", out_ + "/m.svg", "--html", out_ + "/m.html"});
    at_counted_calls({"run", b, "--seed", "1", "--output", out_ + "/run", "--all-tensors", out_ + "/tensors"});
    at_counted_calls({"run", b, "--seed", "1", "--repeat", "200"});
    at_counted_calls({"check", b});
    at_counted_calls({"size", b});
    at_counted_calls({"compare", b, b, "--data", bench_.data, "--cast-inputs", "--csv", out_ + "/m.csv"});
    at_counted_calls({"eval", b, "--data", bench_.data, "--labels", bench_.labels, "--cast-inputs"});
    at_counted_calls({"search", bench_.network, "--data", bench_.data, "--labels", bench_.labels, "--cast-inputs",
                      "--max-drop", "0.5", "-o", out_ + "/map.json"});
    at_counted_calls(
        {"report", b, "--data", bench_.data, "--labels", bench_.labels, "--cast-inputs", "-o", out_ + "/page.html"});
    at_counted_calls({"export", bench_.model, "--checkpoint", bench_.path("good"), "-o", out_ + "/e.nacre"});
    at_counted_calls(tune({"-o", out_ + "/t.nacre", "--csv", out_ + "/t.csv", "--html", out_ + "/t.html"}));
    at_counted_calls(tune(
        {"-o", out_ + "/t.nacre", "--csv", out_ + "/t.csv", "--checkpoint", out_ + "/run", "--checkpoint-every", "1"}));
    if (bench_.every == 1) slow_step();
    return found_;
  }

 private:
  Arguments tune(const Arguments& more) const {
    Arguments all = {"tune",       bench_.model, "--data",   bench_.data, "--labels", bench_.labels, "--cast-samples",
                     "--validate", "0.25",       "--epochs", "2",         "--batch",  "16"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

  void empty_folder() const {
    fs::remove_all(out_);
    fs::create_directory(out_);
  }

  // Returns the files that a command writes, except checkpoints, which have a protocol of their own.
  std::vector<std::string> files() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(out_))
      if (entry.is_regular_file() && entry.path().extension() != ".checkpoint" && entry.path().filename() != "unsaved")
        all.push_back(entry.path());
    std::ranges::sort(all);
    return all;
  }

  void at_counted_calls(const Arguments& arguments) {
    empty_folder();
    const Measured whole = run_counted(arguments, 0);
    if (whole.exit_code != 0) return found_.fail(arguments[0] + ": not interrupted: " + whole.error);
    const std::vector<std::string> expected = files();
    const uint64_t points = bench_.every > 1 ? 4 : 16;
    for (uint64_t i = 0; i < points; ++i) {
      // Half of the calls are among the last, where files are written. The others are spread over the second half,
      // because the dynamic linker makes the first half.
      const uint64_t at =
          i % 2 == 0 ? whole.calls - std::min(whole.calls - 1, 2 * i) : whole.calls / 2 + whole.calls / 2 * i / points;
      empty_folder();
      const Measured m = run_counted(arguments, at);
      std::string what = "SIGTERM at call " + std::to_string(at) + " of " + std::to_string(whole.calls) + " of";
      for (const std::string& a : arguments) what += " " + a;
      judge(what, m, expected);
      if (m.signal != 0 && std::ranges::count(arguments, "--checkpoint-every") != 0) goes_on(what, arguments, expected);
    }
  }

  void judge(const std::string& what, const Measured& m, const std::vector<std::string>& expected) {
    ++found_.runs;
    ++(m.signal == SIGTERM ? found_.answered : found_.done);
    // The heap's system calls vary, so a run may end before the counted call.
    const double went_on = m.sent ? m.seconds : 0;
    found_.slowest = std::max(found_.slowest, went_on);
    if (m.hung) found_.fail(what + ": did not end");
    else if (m.signal != SIGTERM && m.exit_code != 0)
      found_.fail(what + ": ended with " + std::to_string(m.exit_code) + ": " + m.error);
    // The limit is a second for what is under way, and the time that ending itself takes.
    if (went_on > 1.25 * bench_.most_seconds)
      found_.fail(what + ": went on for " + std::to_string(went_on) + " s of the processor");
    for (const std::string& file : files()) {
      if (std::ranges::find(expected, file) == expected.end()) found_.fail(what + ": left " + file);
      else if (fs::file_size(file) == 0) found_.fail(what + ": left an empty " + file);
    }
  }

  void goes_on(const std::string& what, const Arguments& arguments, const std::vector<std::string>& expected) {
    const Measured m = run_measured(arguments);
    if (m.exit_code != 0) found_.fail(what + ", then again: " + m.error);
    if (files() != expected) found_.fail(what + ", then again: other files");
    const std::vector<uint8_t> model = tools::read_bytes(out_ + "/t.nacre");
    if (tuned_.empty()) tuned_ = model;
    if (model != tuned_) found_.fail(what + ", then again: another model");
  }

  // Tries one step of 6,144 rows, at once and in micro-batches. The first form is given up. The second saves what was
  // learned before.
  void slow_step() {
    tools::NpyArray x = tools::read_npy(bench_.data), y = tools::read_npy(bench_.labels);
    for (tools::NpyArray* array : {&x, &y}) {
      const tools::ElementBytes once = array->data;
      for (int i = 1; i < 128; ++i) array->data.append(once);
      array->dims[0] *= 128;
    }
    tools::write_npy(bench_.path("many_x.npy"), x);
    tools::write_npy(bench_.path("many_y.npy"), y);
    for (const char* rows : {"6144", "16"}) {
      empty_folder();
      const Measured m =
          run_counted({"tune", bench_.network, "--loss", "softmax_cross_entropy", "--data", bench_.path("many_x.npy"),
                       "--labels", bench_.path("many_y.npy"), "--cast-samples", "--batch", "6144", "--micro-batch",
                       rows, "--epochs", "50", "--checkpoint", out_ + "/run", "--kernels", "reference"},
                      kAtTimer);
      const std::string what = std::string("SIGTERM in a step of 6,144 rows, ") + rows + " at once";
      judge(what, m, {});
      if (m.signal != SIGTERM) found_.fail(what + ": did not end by it");
      const bool saved = fs::file_size(out_ + "/run/slot0.checkpoint") > 0;
      if (saved != (std::string(rows) == "16")) found_.fail(what + ": a checkpoint, or none");
    }
  }

  const Bench& bench_;
  std::string out_;
  std::vector<uint8_t> tuned_;
  Found found_;
};

}  // namespace

Found interrupted_commands(const Bench& bench) { return Interrupted(bench).all(); }

}  // namespace nacre::test
