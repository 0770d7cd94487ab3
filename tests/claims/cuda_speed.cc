// Claim: how fast the CUDA port is on this machine's GPU, as a table of the goals G1 to G15. Without a GPU it is NOT
// SHOWN, with the port's sentence.
//
//   cuda_speed [simulated] [--json FILE] [--seconds N] [--peer COMMAND] [--checked FILE] MODEL...
//
// Models for inference and for training, peers and single kernels run in turns, in 7 rounds. Medians and quartiles
// are taken over the rounds; ratios are taken within a round. No round begins that would end after the limit [420 s].
// The FILE of --json has one object a line and is written whole or not at all. The FILE of --checked has the lines of
// claims cuda_equal and cuda_trains. COMMAND speaks as peer_process.h says. "simulated" runs on the tests' device, to
// show that all parts work; its times mean nothing.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/claims/cuda_goals.h"
#ifdef NACRE_SIMULATED_DEVICE
#include "tools/base/json.h"
#endif

namespace nacre::test {
namespace {

using Clock = std::chrono::steady_clock;

struct SpeedOptions {
  bool simulated = false;
  double seconds = 420;
  std::string json, peer, checked;
  std::vector<std::string> models;
};

bool parse(int count, char** words, SpeedOptions* options) {
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    std::string* const text = word == "--json"      ? &options->json
                              : word == "--peer"    ? &options->peer
                              : word == "--checked" ? &options->checked
                                                    : nullptr;
    if (word == "simulated") {
      options->simulated = true;
    } else if (!word.starts_with("--")) {
      options->models.push_back(word);
    } else if (++i == count) {
      return std::printf("%s has no value\n", word.c_str()), false;
    } else if (text != nullptr) {
      *text = words[i];
    } else if (word != "--seconds" || (options->seconds = std::atof(words[i])) <= 0) {
      return std::printf("%s %s: unknown, or no number above 0\n", word.c_str(), words[i]), false;
    }
  }
  return true;
}

CheckedClaims read_checked(const std::string& path) {
  CheckedClaims claims;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("CLAIM cuda_equal")) claims.equal = line;
    if (line.starts_with("CLAIM cuda_trains")) claims.trains = line;
  }
  return claims;
}

// ---- JSON ----

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", unsigned(static_cast<unsigned char>(c)));
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20) out += code;
    else out += c;
  }
  return out + "\"";
}

// Builds one JSON object, member by member.
class JsonLine {
 public:
  JsonLine& add(const std::string& name, const std::string& text) { return put(name, quoted(text)); }
  JsonLine& add(const std::string& name, double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", value);
    return put(name, text);
  }
  std::string text() const { return text_ + "}"; }

 private:
  JsonLine& put(const std::string& name, const std::string& value) {
    text_ += (text_.size() > 1 ? "," : "") + quoted(name) + ":" + value;
    return *this;
  }
  std::string text_ = "{";
};

std::vector<std::string> json_lines(const CudaTimings& timings, const std::vector<GoalRow>& goals,
                                    const JsonLine& about) {
  std::vector<std::string> lines = {about.text()};
  for (size_t i = 0; i < timings.contenders().size(); ++i) {
    const Timed& timed = timings.contenders()[i];
    const Ratio us = quartiles(timed.seconds);
    JsonLine line;
    line.add("name", timed.name).add("rounds", double(timed.seconds.size()));
    if (us.median > 0) {
      line.add("lower_us", us.low * 1e6).add("median_us", us.median * 1e6).add("upper_us", us.high * 1e6);
      const Work& work = timings.work(i);
      if (work.bytes > 0) line.add("gb_per_s", work.bytes / us.median * 1e-9);
      if (work.flop > 0) line.add("tflop_per_s", work.flop / us.median * 1e-12);
    }
    lines.push_back(line.text());
  }
  for (const HostWork& work : timings.host_work())
    lines.push_back(JsonLine()
                        .add("host_work", work.model)
                        .add("graph_launches", double(work.calls.graph_launch))
                        .add("kernel_launches", double(work.calls.launch))
                        .add("waits", double(work.calls.stream_synchronize))
                        .add("copies_to_device", double(work.calls.copy_to_device))
                        .add("copies_to_host", double(work.calls.copy_to_host))
                        .add("allocations", double(work.allocations()))
                        .add("driver_calls", double(work.calls.all()))
                        .add("device_bytes", double(work.device_bytes))
                        .add("allocator_calls", double(work.allocator_calls))
                        .text());
  for (const GoalRow& goal : goals)
    lines.push_back(JsonLine()
                        .add("goal", goal.id)
                        .add("measure", goal.measure)
                        .add("wanted", goal.wanted)
                        .add("found", goal.found)
                        .add("reached", name_of(goal.reached))
                        .text());
  return lines;
}

// Writes the file whole or not at all.
bool write_lines(const std::string& path, const std::vector<std::string>& lines) {
  const std::string partial = path + ".partial";
  std::ofstream file(partial);
  for (const std::string& line : lines) file << line << '\n';
  file.close();
  if (file && std::rename(partial.c_str(), path.c_str()) == 0) return true;
  std::remove(partial.c_str());
  std::printf("%s cannot be written\n", path.c_str());
  return false;
}

#ifdef NACRE_SIMULATED_DEVICE
// Returns whether the file holds the table's values. Throws if it is no JSON.
bool reads_back(const std::string& path, const std::vector<GoalRow>& goals, const CudaTimings& timings) {
  std::ifstream file(path);
  size_t goal = 0, names = 0;
  for (std::string line; std::getline(file, line);) {
    const tools::Json json = tools::Json::parse(line);
    if (json.contains("goal")) {
      if (goal == goals.size() || json["found"].get<std::string>() != goals[goal].found ||
          json["goal"].get<std::string>() != goals[goal].id)
        return false;
      ++goal;
    }
    if (json.contains("name")) {
      const Timed* const timed = timings.find(json["name"].get<std::string>());
      const double us = timed == nullptr ? 0 : median_seconds(*timed) * 1e6;
      if (us > 0 && std::abs(json["median_us"].get<double>() - us) > 1e-6 * us) return false;
      ++names;
    }
  }
  return goal == goals.size() && names == timings.contenders().size();
}
#endif

// ---- The claim ----

void print_table(const CudaTimings& timings, const std::vector<GoalRow>& goals) {
  std::printf("\n%-46s %12s %12s %12s\n", "us", "median", "lower", "upper");
  for (const Timed& timed : timings.contenders()) {
    const Ratio us = quartiles(timed.seconds);
    if (us.median > 0)
      std::printf("%-46s %12.2f %12.2f %12.2f\n", timed.name.c_str(), us.median * 1e6, us.low * 1e6, us.high * 1e6);
    else std::printf("%-46s %12s\n", timed.name.c_str(), "not timed");
  }
  std::printf("\n%-4s %-9s %-60s %-40s found\n", "goal", "", "measure", "wanted");
  for (const GoalRow& goal : goals)
    std::printf("%-4s %-9s %-60s %-40s %s\n", goal.id.c_str(), name_of(goal.reached), goal.measure.c_str(),
                goal.wanted.c_str(), goal.found.c_str());
  std::printf("\n");
}

int not_shown(const std::string& why, int code) {
  std::printf("CLAIM cuda_speed NOT SHOWN: %s\n", why.c_str());
  return code;
}

int told(const SpeedOptions& options, const CudaTimings& timings, const std::vector<GoalRow>& goals, int rounds) {
  const GoalCounts counts = count_goals(goals);
  char text[320];
  std::snprintf(text, sizeof text, "%d goals are reached, %d missed, %d not there; %zu contenders in %d of 7 rounds",
                counts.reached, counts.missed, counts.not_there, timings.contenders().size(), rounds);
#ifdef NACRE_SIMULATED_DEVICE
  if (options.simulated && !options.json.empty() && !reads_back(options.json, goals, timings))
    return not_shown(options.json + " does not say what the table says", 1);
#endif
  if (rounds == 0) return not_shown(std::string("no round ended in time; ") + text, options.simulated ? 77 : 1);
  if (!options.simulated) return std::printf("CLAIM cuda_speed shown: %s\n", text), 0;
  for (const Timed& timed : timings.contenders())
    if (median_seconds(timed) <= 0) return not_shown(timed.name + " has no time on the simulated device", 1);
  return not_shown(std::string("no GPU; on the simulated device, whose times mean nothing, the program ran whole: ") +
                       text + "; what it wrote reads back",
                   77);
}

int claim(const SpeedOptions& options) {
  const Clock::time_point start = Clock::now();
  const auto left = [&] { return options.seconds - std::chrono::duration<double>(Clock::now() - start).count(); };
  const GpuDriver driver(options.simulated);
  if (driver.driver == nullptr) {
    cuda::Device none;
    none.open(nullptr, driver.modules);
    return not_shown(none.sentence(), 77);
  }
  PeerProcess peer;  // started before the driver, because a process that has used the driver may not fork
  std::string no_peer = "no peer was given";
  if (!options.peer.empty()) no_peer = peer.start(options.peer, left() / 4) ? "" : peer.sentence();
  const CountedDriver counted(*driver.driver);
  cuda::Device device;
  if (!device.open(&counted.driver(), driver.modules, 0, driver.library)) return not_shown(device.sentence(), 77);
  std::printf("%s; peer: %s\n", device.name(), no_peer.empty() ? peer.about().c_str() : no_peer.c_str());
  int code = 0;
  {
    CudaTimings timings(device, counted, options.simulated);
    bool ready = true;
    for (const std::string& model : options.models) ready = ready && timings.add_model(model);
    ready = ready && timings.add_kernels() && timings.add_copy() && timings.count_host_work();
    if (!ready) return not_shown(timings.failure(), 1);
    timings.add_peer(peer, left() / 3);
    const int rounds = time_in_turns(
        timings.contenders(), {.count = 7, .burst_seconds = options.simulated ? 0 : 10e-3, .limit_seconds = left()});
    const std::vector<GoalRow> goals = goal_rows(timings, read_checked(options.checked), no_peer);
    print_table(timings, goals);
    std::printf("%d of 7 rounds in %.0f s of at most %.0f; load %.2f\n", rounds, options.seconds - left(),
                options.seconds, load_of_machine());
    const JsonLine about = JsonLine()
                               .add("device", device.name())
                               .add("clock", options.simulated ? "simulated" : "real")
                               .add("peer", no_peer.empty() ? peer.about() : no_peer)
                               .add("rounds", rounds)
                               .add("seconds", options.seconds - left())
                               .add("load", load_of_machine());
    if (!options.json.empty() && !write_lines(options.json, json_lines(timings, goals, about)))
      return not_shown("its file cannot be written", 1);
    code = told(options, timings, goals, rounds);
  }
  device.close();
#ifdef NACRE_SIMULATED_DEVICE
  if (options.simulated && (driver.fake->held() != 0 || driver.fake->broken() != 0))
    return not_shown("something of the driver is left, or was used wrongly", 1);
#endif
  return code;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(cuda_speed) {
  nacre::test::SpeedOptions options;
  return nacre::test::parse(count, arguments, &options) ? nacre::test::claim(options) : 2;
}
