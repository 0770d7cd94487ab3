// Claim: whatever happens to the checkpoint files of a training, no state is mistaken for that of another epoch or of
// another training.
//
//   damaged  each slot, of the training and of its best epoch: with a bit flipped, cut, zeroed, emptied, removed, or
//            replaced by an older one, by one of the other folder, or by one of another training. That training has
//            other options, another optimizer, or the same options from another beginning, or is not from nacre tune
//   kills    a training that begins anew over another one is killed at its calls that change a file (tests/power_cut.c)
//
// After each case the same training goes on and ends with the bytes of an undisturbed one, or is refused. nacre
// export, with and without --best, loads the state of the epoch that it says. If that is not the epoch that was saved
// last, a sentence says so. NACRE_LONG=1 tries each byte, else a sample.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/run_tool.h"
#include "tests/tuner/tuned_perceptron.h"
#include "tools/base/error.h"
#include "tools/tuner/saved_state.h"

namespace nacre::tools {
namespace {

using namespace tuned_perceptron;
namespace fs = std::filesystem;

using Bytes = std::vector<uint8_t>;
using Folder = std::map<std::string, Bytes>;  // by name: "best/slot0.checkpoint"; absent: no file
const std::vector<std::string> kSlots = {"slot0.checkpoint", "slot1.checkpoint", "best/slot0.checkpoint",
                                         "best/slot1.checkpoint"};

// Whether a damaged slot shows that something was lost. A whole but older slot looks like a copy of an earlier day,
// so the tool can only say its epoch.
enum class Loss { kShows, kIsOlder };

struct Known {
  std::string training, where;
};

// A training with its own options: its files at the end of each epoch, and its end if nothing disturbs it.
struct Reference {
  std::string name = {};
  Bytes model = {};
  TuneSettings settings = {};
  std::vector<Folder> after = {};  // after each epoch
  std::vector<std::byte> kept = {}, last = {};
  std::string log = {}, best = {};
};

TemporaryDirectory* work;
std::map<std::vector<std::byte>, Known> known_states;
int folders = 0;

Folder read_folder(const std::string& path) {
  Folder folder;
  for (const std::string& name : kSlots)
    if (fs::exists(path + "/" + name)) folder[name] = read_bytes(path + "/" + name);
  return folder;
}

std::string write_folder(const Folder& folder) {
  const std::string path = *work / std::to_string(++folders);
  fs::create_directories(path);
  for (const auto& [name, bytes] : folder) {
    fs::create_directories(fs::path(path + "/" + name).parent_path());
    write_bytes(path + "/" + name, bytes);
  }
  return path;
}

Reference train(const std::string& name, const Bytes& model, TuneSettings s, const std::string& start_from = "") {
  Reference made = {.name = name, .model = model, .settings = s};
  s.checkpoint = *work / name;
  Trained run(model, s);
  if (!start_from.empty()) run.tuner.start_from(start_from);
  run.tuner.run({.step = {},
                 .epoch =
                     [&](const TunePosition& p) {
                       made.after.push_back(read_folder(s.checkpoint));
                       known_states[run.state()] = {name, "epoch " + std::to_string(p.epoch)};
                       return true;
                     },
                 .interrupted = {}});
  made.last = run.state();
  made.log = csv_log(run.tuner.position().epochs);
  made.best = "epoch " + std::to_string(*best_epoch(run.tuner.position().epochs) + 1);
  run.tuner.take_kept();
  made.kept = run.state();
  return made;
}

struct Tally {
  int cases = 0, resumed = 0, refused = 0, anew = 0, said = 0, loads = 0, kills = 0, old = 0, begun = 0, none = 0;
  std::string wrong;

  bool fail(const std::string& what, const std::string& why) {
    if (wrong.empty()) wrong = what + ": " + why;
    return false;
  }
};

// Returns "" if the training ends as it should, "refused", "anew", or what is wrong.
std::string go_on(const Reference& of, const std::string& path, Tally& tally, const std::string& now,
                  Loss loss = Loss::kShows) {
  TuneSettings s = of.settings;
  s.checkpoint = path;
  Trained run(of.model, s);
  try {
    if (!run.tuner.begin(false)) return "anew";
  } catch (const Error& error) {
    return error.code == kBadInput || error.code == kUsage ? "refused" : error.what();
  }
  const TunePosition& p = run.tuner.position();
  const bool other = "epoch " + std::to_string(p.epoch) != now || p.step != 0;
  if (other && loss == Loss::kShows && run.tuner.warnings().empty()) return "goes on from another epoch, unsaid";
  tally.said += !run.tuner.warnings().empty();
  run.tuner.run({});
  if (csv_log(run.tuner.position().epochs) != of.log) return "another log";
  if (run.state() != of.last) return "another last epoch";
  run.tuner.take_kept();
  if (run.state() != of.kept) return "another best epoch";
  return "";
}

// Returns the checkpoint that nacre export takes: "training, epoch", "refused", or the mistake.
std::string load(const Reference& of, const std::string& path, bool best, Tally& tally,
                 const std::string& expected = "", Loss loss = Loss::kShows) {
  const LoadedModel model(of.model, "test", "");
  LoadedTrainer trainer(model);
  try {
    const LoadedState loaded = load_state(trainer, path, {.best = best});
    const std::span<std::byte> state = trainer.state();
    const auto found = known_states.find({state.begin(), state.end()});
    if (found == known_states.end()) return "wrong: a state of no epoch";
    const Known& known = found->second;
    if (known.where != loaded.where) return "wrong: " + known.where + " is said to be " + loaded.where;
    const std::string is = known.training + ", " + known.where;
    const bool told = loss == Loss::kIsOlder && known.training == of.name;
    if (!expected.empty() && is != expected && !told && loaded.warnings.empty()) return "wrong: " + is + ", unsaid";
    ++tally.loads;
    return is;
  } catch (const Error& error) {
    return error.code == kBadInput || error.code == kUsage ? "refused" : std::string("wrong: ") + error.what();
  }
}

bool judge(const std::string& what, const Reference& of, const Folder& folder, Loss loss, Tally& tally) {
  const std::string now = "epoch " + std::to_string(of.after.size());
  ++tally.cases;
  for (const bool best : {false, true}) {
    const std::string path = write_folder(folder);
    const std::string got = load(of, path, best, tally, of.name + ", " + (best ? of.best : now), loss);
    fs::remove_all(path);
    if (got.starts_with("wrong")) return tally.fail(what + (best ? ", best" : ""), got);
  }
  const std::string path = write_folder(folder);
  const std::string end = go_on(of, path, tally, now, loss);
  fs::remove_all(path);
  if (end.empty()) ++tally.resumed;
  else if (end == "refused") ++tally.refused;
  else return tally.fail(what, end == "anew" ? "begins anew" : end);
  return true;
}

bool with_slot(const std::string& what, const Reference& of, const Folder& folder, const std::string& slot,
               const Bytes& bytes, Loss loss, Tally& tally) {
  Folder changed = folder;
  changed[slot] = bytes;
  return judge(of.name + ", " + slot + " " + what, of, changed, loss, tally);
}

bool sweep(const Reference& of, const std::vector<const Reference*>& others, size_t stride, Tally& tally) {
  const Folder& whole = of.after.back();
  for (const std::string& slot : kSlots) {
    const Bytes& bytes = whole.at(slot);
    const auto replaced = [&](const std::string& what, const Bytes& by, Loss loss = Loss::kShows) {
      return with_slot(what, of, whole, slot, by, loss, tally);
    };
    for (size_t at = 0; at < bytes.size(); at += at < 80 ? std::min<size_t>(stride, 9) : stride) {
      Bytes flipped = bytes;
      flipped[at] ^= uint8_t(1 << at % 8);
      const Bytes cut(bytes.begin(), bytes.begin() + ptrdiff_t(at));
      if (!replaced("flipped at " + std::to_string(at), flipped) || !replaced("cut at " + std::to_string(at), cut))
        return false;
    }
    Bytes half = bytes;
    std::fill(half.begin() + ptrdiff_t(half.size() / 2), half.end(), 0);
    if (!replaced("zeroed", Bytes(bytes.size(), 0)) || !replaced("erased", Bytes(bytes.size(), 0xFF)) ||
        !replaced("half zeroed", half) || !replaced("of text", Bytes(100, 'x')))
      return false;
    for (const Folder& earlier : of.after)
      for (const auto& [name, older] : earlier)
        if (!replaced("as " + name + " of an earlier epoch", older, Loss::kIsOlder)) return false;
    for (const Reference* other : others)
      for (const auto& [name, foreign] : other->after.back())
        if (!replaced("as " + name + " of " + other->name, foreign, Loss::kIsOlder)) return false;
  }
  // Damages each set of slots: they are emptied, removed, or replaced by slots of the other folder.
  for (int mask = 1; mask < 16; ++mask)
    for (const char* how : {"emptied", "removed", "swapped"}) {
      Folder changed = whole;
      for (size_t i = 0; i < 4; ++i) {
        if ((mask >> i & 1) == 0) continue;
        if (how[0] == 'r') changed.erase(kSlots[i]);
        else changed[kSlots[i]] = how[0] == 'e' ? Bytes() : whole.at(kSlots[3 - i]);
      }
      if (how[0] == 'r' && mask == 15) continue;  // an empty folder gives a new training
      if (!judge(of.name + ", slots " + std::to_string(mask) + " " + how, of, changed,
                 how[0] == 's' ? Loss::kIsOlder : Loss::kShows, tally))
        return false;
    }
  return true;
}

// Kills a training, which begins anew over another one, at its call `at`. Returns false if the training ended before.
bool killed(const Reference& next, const std::string& path, int at) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("POWER_CUT_FILES", path.c_str(), 1);
    setenv("POWER_CUT_AT", std::to_string(at).c_str(), 1);
    TuneSettings s = next.settings;
    s.checkpoint = path;
    Trained run(next.model, s);
    run.tuner.begin(true);
    run.tuner.run({});
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

bool judge_kill(const Reference& before, const Reference& next, const std::string& path, int at, Tally& tally) {
  const std::string what = before.name + " begun anew as " + next.name + ", killed at call " + std::to_string(at);
  ++tally.kills;
  const auto copy = [&] {
    const std::string to = *work / std::to_string(++folders);
    fs::copy(path, to, fs::copy_options::recursive);
    return to;
  };
  const std::string last = load(before, copy(), false, tally), best = load(before, copy(), true, tally);
  for (const std::string& got : {last, best})
    if (got.starts_with("wrong")) return tally.fail(what, got);
  const auto training = [](const std::string& is) { return is.substr(0, is.find(',')); };
  if (last != "refused" && best != "refused" && training(last) != training(best))
    return tally.fail(what, "the last is of " + last + ", the best of " + best);
  const std::string old_end = go_on(before, copy(), tally, "epoch " + std::to_string(before.after.size())),
                    new_end = go_on(next, copy(), tally, last.substr(last.find(',') + 2));
  const auto fits = [](const std::string& end) { return end.empty() || end == "refused" || end == "anew"; };
  if (!fits(old_end)) return tally.fail(what, "the old training: " + old_end);
  // The training may stand within an epoch, whose state is not known here.
  if (!fits(new_end)) return tally.fail(what, "the new training: " + new_end);
  if (old_end.empty() && new_end.empty()) return tally.fail(what, "both trainings go on");
  if (old_end.empty() && last != before.name + ", epoch " + std::to_string(before.after.size()))
    return tally.fail(what, "the old training is not whole: " + last);
  if (old_end == "refused" && new_end == "refused") return tally.fail(what, "neither goes on nor begins");
  tally.old += old_end.empty();
  tally.begun += new_end.empty();
  tally.none += old_end == "anew";
  return true;
}

bool kills(const Reference& before, const Reference& next, Tally& tally) {
  for (int at = 1;; ++at) {
    const std::string path = write_folder(before.after.back());
    const bool cut = killed(next, path, at);
    const bool good = !cut || judge_kill(before, next, path, at, tally);
    for (const auto& entry : fs::directory_iterator(work->path()))
      if (std::isdigit(entry.path().filename().string()[0]) != 0) fs::remove_all(entry.path());
    if (!good || !cut) return good;
  }
}

TuneSettings options(float rate, const std::string& text, uint32_t epochs) {
  TuneSettings s = settings();
  s.epochs = epochs;
  s.checkpoint_steps = 0;
  s.schedule = {.rate = rate};
  s.options = text + "\n";
  return s;
}

int run() {
  const Bytes adam = training_bytes(), sgd = training_bytes(Optimizer::kSgd);
  // With the higher rates below, no slot of the training itself holds the best epoch.
  const Reference near = train("near", adam, options(0.6f, "lr 0.6", 4)),
                  other = train("other", adam, options(0.05f, "lr 0.05", 4)),
                  another_model = train("sgd", sgd, options(0.1f, "sgd", 4)),
                  same_options = train("same_options", adam, options(0.6f, "lr 0.6", 4), *work / "other");
  Reference bare = {.name = "no training"};
  {
    const LoadedModel model(adam, "test", "");
    LoadedTrainer trainer(model);
    known_states[{trainer.state().begin(), trainer.state().end()}] = {bare.name, ""};
    for (int i = 0; i < 9; ++i) save_state(trainer, *work / "bare");
    bare.after.push_back(read_folder(*work / "bare"));
  }
  const char* const whole = std::getenv("NACRE_LONG");
  const bool all = whole != nullptr && whole == std::string("1");
  Tally tally;
  const std::vector<const Reference*> others = {&other, &another_model, &same_options, &bare};
  std::vector<Reference> trainings = {near};
  for (const float rate : {0.3f, 0.9f, 1.5f})
    trainings.push_back(
        train("rate" + std::to_string(trainings.size()), adam, options(rate, "rate " + std::to_string(rate), 6)));
  std::string bests;
  for (const Reference& training : trainings) {
    bests += (bests.empty() ? "" : ", ") + training.best + " of " + std::to_string(training.after.size());
    if (!sweep(training, others, all ? 1 : 211, tally)) break;
  }
  for (const Reference& before : trainings)
    if (tally.wrong.empty() && kills(before, other, tally)) kills(other, before, tally);
  if (tally.wrong.empty() && (tally.cases < 600 || tally.kills < 100))
    tally.wrong = std::to_string(tally.cases) + " cases and " + std::to_string(tally.kills) + " kills are too few";
  if (!tally.wrong.empty()) {
    std::printf("CLAIM checkpoints_hold NOT SHOWN: %s\n", tally.wrong.c_str());
    return 1;
  }
  std::printf(
      "CLAIM checkpoints_hold shown: %d files damaged, cut, emptied, swapped, older or foreign beside trainings whose "
      "best "
      "is %s: %d go on to the same bytes, %d are refused, none is another epoch or training than is said, %d times a "
      "sentence says which slot was not whole; %d checkpoints loaded are of the epoch that is said; %d kills of a "
      "training "
      "that begins anew: %d leave the old one whole, %d the new one, %d none\n",
      tally.cases, bests.c_str(), tally.resumed, tally.refused, tally.said, tally.loads, tally.kills, tally.old,
      tally.begun, tally.none);
  return 0;
}

}  // namespace
}  // namespace nacre::tools

int main() {
  if (std::filesystem::is_directory("/dev/shm")) setenv("TMPDIR", "/dev/shm", 0);
  nacre::tools::TemporaryDirectory directory;
  nacre::tools::work = &directory;
  return nacre::tools::run();
}
