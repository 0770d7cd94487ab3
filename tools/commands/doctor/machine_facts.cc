// Facts of the machine: processor, memory, limits of the process, terminal.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

#include "ports/threads/threads.h"
#include "tools/base/colour.h"
#include "tools/base/format.h"
#include "tools/base/table.h"
#include "tools/commands/doctor/facts.h"
#include "tools/files/temporary_directory.h"

namespace nacre::tools {
namespace {

// Linux's words for the instructions that tiers use (ports/x86/tiers.h, ports/arm/detect.cc).
constexpr const char* kInstructions[] = {"avx2",     "fma",      "f16c",     "bmi1",     "bmi2",        "avx_vnni",
                                         "avx512f",  "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512_bf16",
                                         "amx_bf16", "amx_tile", "amx_int8", "neon",     "vfpv4",       "asimd",
                                         "asimddp",  "i8mm",     "bf16"};

std::string text_of_file(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string in_gib(double bytes) { return fmt::format("{:.1f} GiB", bytes / double(1 << 30)); }

Fact instructions(const std::string& cpuinfo) {
  std::string flags = field_of(cpuinfo, "flags");
  if (flags.empty()) flags = field_of(cpuinfo, "Features");
  std::istringstream words(flags);
  std::vector<std::string> here;
  for (std::string word; words >> word;)
    if (std::ranges::find(kInstructions, word) != std::end(kInstructions)) here.push_back(word);
  return {.name = "instructions",
          .is = here.empty() ? "none that a tier of kernels uses beyond the portable one"
                             : fmt::format("{}", fmt::join(here, " "))};
}

Fact threads() {
  try {
    const int count = ThreadPool(0).count();
    return {.name = "threads", .is = fmt::format("a pool gets {}; commands run 1 unless --threads says more", count)};
  } catch (const ThreadsRefused& refused) {
    return {.name = "threads",
            .presence = Presence::kLimited,
            .is = fmt::format("only {} of {} could be started", refused.started, refused.asked),
            .remedy = "raise the limit of processes (ulimit -u)"};
  }
}

Fact limit(const char* name, int resource, const char* option) {
  rlimit limits = {};
  const bool known = getrlimit(decltype(RLIMIT_AS)(resource), &limits) == 0;
  if (!known || limits.rlim_cur == RLIM_INFINITY) return {.name = name, .is = "no limit"};
  return {.name = name,
          .presence = Presence::kLimited,
          .is = grouped(limits.rlim_cur) + " bytes",
          .remedy = fmt::format("raise it with ulimit {}, if a command says that it was hit", option)};
}

Fact open_files() {
  constexpr rlim_t kEnough = 256;  // a command holds its inputs, its outputs and a device open: far fewer
  rlimit limits = {};
  getrlimit(RLIMIT_NOFILE, &limits);
  Fact fact = {.name = "open files", .is = grouped(limits.rlim_cur)};
  if (limits.rlim_cur == RLIM_INFINITY) fact.is = "no limit";
  if (limits.rlim_cur < kEnough) fact.presence = Presence::kLimited, fact.remedy = "raise it with ulimit -n";
  return fact;
}

Fact temporary_files() {
  const std::string directory = temporary_directory();
  struct statvfs disk = {};
  if (access(directory.c_str(), W_OK) != 0 || statvfs(directory.c_str(), &disk) != 0)
    return {.name = "temporary files",
            .presence = Presence::kMissing,
            .is = directory + " cannot be written, and arrays over 64 MiB are unpacked there",
            .remedy = "name another directory with the variable TMPDIR"};
  return {.name = "temporary files",
          .is = fmt::format("{} has {} free for arrays over 64 MiB", directory,
                            in_gib(double(disk.f_bavail) * double(disk.f_frsize)))};
}

}  // namespace

std::string field_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.compare(0, name.size(), name) != 0) continue;
    if (line.find_first_not_of(" \t", name.size()) != colon) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

Facts processor_facts() {
  const std::string cpuinfo = text_of_file("/proc/cpuinfo");
  utsname system = {};
  uname(&system);
  const std::string model = field_of(cpuinfo, "model name");
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return {{.name = "processor",
           .is = fmt::format("{} ({}, {})", model.empty() ? "unknown" : model, system.machine, system.sysname)},
          instructions(cpuinfo),
          {.name = "cores", .is = fmt::format("{} of this machine are online", online)},
          threads()};
}

Facts memory_facts() {
  const std::string meminfo = text_of_file("/proc/meminfo"), group = text_of_file("/sys/fs/cgroup/memory.max");
  const auto bytes = [&](const char* name) { return std::strtod(field_of(meminfo, name).c_str(), nullptr) * 1024; };
  Facts facts;
  if (bytes("MemTotal") > 0)
    facts.push_back(
        {.name = "memory", .is = in_gib(bytes("MemTotal")) + ", of it available " + in_gib(bytes("MemAvailable"))});
  if (const double most = std::strtod(group.c_str(), nullptr); most > 0)
    facts.push_back({.name = "container's memory",
                     .presence = Presence::kLimited,
                     .is = in_gib(most),
                     .remedy = "give the container more, if a command is killed"});
  facts.push_back(limit("address space", int(RLIMIT_AS), "-v"));
  facts.push_back(limit("size of a file", int(RLIMIT_FSIZE), "-f"));
  facts.push_back(open_files());
  facts.push_back(temporary_files());
  return facts;
}

Facts terminal_facts() {
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  constexpr const char* kColours[] = {"on", "off: standard output is no terminal", "off: NO_COLOR is set",
                                      "off: TERM names no terminal with colours"};
  const Colouring colours = colouring(STDOUT_FILENO);
  return {{.name = "width",
           .is = terminal ? fmt::format("{} columns", terminal_width()) : "no limit: standard output is no terminal"},
          {.name = "colours", .is = kColours[size_t(colours)]},
          {.name = "progress", .is = isatty(STDERR_FILENO) == 1 ? "on" : "off: standard error is no terminal"}};
}

}  // namespace nacre::tools
