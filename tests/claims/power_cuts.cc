// Claim: whatever cuts a save short, the earlier checkpoint or the new one is found whole, and the next save works.
//
//   cuts     the power is cut after every programmed byte and inside every erase: in each of four saves, in the
//            work that follows each such cut (a second cut), and in confirm and revert; on flashes of several granules
//            (tests/train/flash.h)
//   wrong    counts loads that are not the last committed state to the byte. The new state is right only from the last
//            step on, which programs the header
//   stuck    counts cuts after which the next save fails, or what it saved is not loaded
//   broken   the same cuts, if the header is programmed before the payload and the reader believes the header
//
// A second reader, written from schema/FORMAT.md alone, must find the state that Checkpoint::load finds.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <vector>

#include "tests/claims/claims.h"
#include "tests/sanitized.h"
#include "tests/train/flash.h"
#include "tests/train/state_models.h"

namespace nacre::test {
namespace {

using Bytes = std::vector<std::byte>;

struct Setup {
  uint32_t program_bytes, erase_bytes;
  uint32_t note_bytes;
};
constexpr Setup kSetups[] = {{1, 64, 0},  {1, 256, 5},  {2, 32, 2},  {4, 128, 3},  {8, 64, 0},
                             {8, 512, 8}, {16, 256, 1}, {32, 64, 7}, {64, 128, 4}, {256, 1024, 0}};

// ---- The independent reader ----

uint32_t crc_of(std::span<const uint8_t> bytes, uint32_t crc = 0) {
  static const std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table;
    for (uint32_t n = 0; n < 256; ++n) {
      table[n] = n;
      for (int i = 0; i < 8; ++i) table[n] = (table[n] >> 1) ^ ((table[n] & 1) != 0 ? 0x82F63B78u : 0);
    }
    return table;
  }();
  crc = ~crc;
  for (const uint8_t byte : bytes) crc = (crc >> 8) ^ kTable[(crc ^ byte) & 255];
  return ~crc;
}

template <class T>
T field(std::span<const uint8_t> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// Returns state and note of the newest checkpoint. With `trusting` it believes the newest header, whatever its
// payload.
std::optional<Bytes> read_format(std::span<const uint8_t> flash, uint64_t slot_bytes, bool trusting) {
  std::optional<Bytes> found;
  uint32_t newest = 0;
  for (uint64_t base : {uint64_t{0}, slot_bytes}) {
    const auto slot = flash.subspan(base, slot_bytes), header = slot.first(64);
    if (std::memcmp(header.data(), "NCKP", 4) != 0 || field<uint32_t>(header, 60) != crc_of(header.first(60))) continue;
    const auto generation = field<uint32_t>(header, 8);
    const uint64_t state_bytes = field<uint64_t>(header, 24), granule = field<uint32_t>(header, 48);
    const uint64_t rows = field<uint32_t>(header, 40), note_bytes = field<uint32_t>(header, 44);
    const auto whole = [&](uint64_t bytes) { return (bytes + granule - 1) / granule * granule; };
    const uint64_t table = whole(64) + whole(16), state = table + whole(32 * rows), note = state + whole(state_bytes);
    uint32_t crc = crc_of(header.subspan(8, 4));
    crc = crc_of(slot.subspan(table, 32 * rows), crc);
    crc = crc_of(slot.subspan(state, state_bytes), crc);
    crc = crc_of(slot.subspan(note, note_bytes), crc);
    if (!trusting && crc != field<uint32_t>(header, 52)) continue;
    if (found && int32_t(generation - newest) < 0) continue;
    newest = generation;
    const auto bytes = std::as_bytes(slot);
    found.emplace(bytes.begin() + ptrdiff_t(state), bytes.begin() + ptrdiff_t(state + state_bytes));
    found->insert(found->end(), bytes.begin() + ptrdiff_t(note), bytes.begin() + ptrdiff_t(note + note_bytes));
  }
  return found;
}

// ---- A storage that programs the header first ----

struct HeaderFirst {
  Flash* flash;
  std::vector<std::pair<uint64_t, Bytes>> waiting;

  Storage storage() {
    Storage s = flash->storage();
    s.context = this;
    s.read = [](void* c, uint64_t at, std::span<std::byte> to) { return of(c).read(at, to); };
    s.program = [](void* c, uint64_t at, std::span<const std::byte> from) { return of(c).program(at, from); };
    s.erase = [](void* c, uint64_t at) { return of(c).flash->erase(at); };
    return s;
  }
  static HeaderFirst& of(void* context) { return *static_cast<HeaderFirst*>(context); }

  // Reads as if the waiting bytes were programmed already.
  bool read(uint64_t at, std::span<std::byte> to) {
    if (!flash->read(at, to)) return false;
    for (const auto& [start, bytes] : waiting)
      for (size_t i = 0; i < bytes.size(); ++i)
        if (start + i >= at && start + i < at + to.size()) to[start + i - at] = bytes[i];
    return true;
  }
  bool program(uint64_t at, std::span<const std::byte> from) {
    if (at != 0 && at != flash->slot_bytes()) {
      waiting.emplace_back(at, Bytes(from.begin(), from.end()));
      return true;
    }
    bool done = flash->program(at, from);
    for (const auto& [start, bytes] : waiting) done = done && flash->program(start, bytes);
    waiting.clear();
    return done;
  }
};

// ---- The cuts ----

struct Sum {
  uint64_t cuts = 0, wrong = 0, stuck = 0, disagreed = 0, violations = 0;
};

class Cuts {
 public:
  Cuts(const Model& model, const Setup& setup, uint64_t seed) : model_(model), setup_(setup), seed_(seed) {
    const uint64_t state_bytes = model.region_bytes(Region::kState);
    Flash none(setup.program_bytes, setup.erase_bytes, setup.erase_bytes);
    if (!Checkpoint::measure(model, none.storage(), setup.note_bytes, &flash_bytes_).ok()) ++sum.stuck;
    for (uint64_t i = 0; i < std::size(contents_); ++i) {
      contents_[i].resize(state_bytes + setup.note_bytes);
      for (std::byte& b : contents_[i]) b = std::byte(next());
    }
  }

  Flash blank() const { return Flash(setup_.program_bytes, setup_.erase_bytes, flash_bytes_); }

  // Cuts each of four saves everywhere. After each cut it makes the next save, and cuts that everywhere too.
  void saves(uint32_t generations) {
    Flash before = blank();
    const Bytes* committed = nullptr;
    for (uint32_t g = 0; g < generations; ++g) {
      const Bytes &fresh = contents_[g], &later = contents_[g + 1];
      each_cut(
          before, [&](Flash& f) { return save(f, fresh); },
          [&](Flash& f) {
            const Bytes* now = judge(f, {committed, f.header_begun() ? &fresh : committed});
            each_cut(
                f, [&](Flash& again) { return save(again, later); },
                [&](Flash& again) {
                  judge(again, {now, again.header_begun() ? &later : now});
                  works_on(again);
                });
            works_on(f);
          });
      if (!save(before, fresh)) ++sum.stuck;
      committed = &fresh;
    }
    sum.violations += before.violations();
  }

  // Cuts a trial over a valid checkpoint: confirm, revert, and a save in place of either.
  void trials() {
    const Bytes &good = contents_[0], &trial = contents_[1], &later = contents_[2];
    Flash f = blank();
    if (!save(f, good) || !save(f, trial, true)) ++sum.stuck;
    const auto confirm = [](Flash& flash) { return Checkpoint(flash.storage()).confirm().ok(); };
    const auto revert = [](Flash& flash) { return Checkpoint(flash.storage()).revert().ok(); };
    each_cut(f, confirm, [&](Flash& cut) {
      judge(cut, {&trial, &trial});
      each_cut(cut, revert, [&](Flash& again) {
        judge(again, {&trial, &good});
        works_on(again);
      });
      works_on(cut);
    });
    each_cut(f, revert, [&](Flash& cut) {
      const Bytes* now = judge(cut, {&trial, &good});
      if (now == &trial && (!revert(cut) || judge(cut, {&good, &good}) != &good)) ++sum.stuck;
      works_on(cut);
    });
    each_cut(
        f, [&](Flash& flash) { return save(flash, later); },
        [&](Flash& cut) {
          judge(cut, {&good, &trial, cut.header_begun() ? &later : &good});
          works_on(cut);
        });
  }

  // Programs the header first. Counts how often a reader that believes headers is wrong, and how often load is.
  void broken(uint64_t* believed, uint64_t* loaded, uint64_t* in_order) {
    Flash before = blank();
    const Bytes* committed = nullptr;
    for (uint32_t g = 0; g < 4; ++g) {
      const Bytes& fresh = contents_[g];
      const auto right = [&](const std::optional<Bytes>& seen) {
        return seen ? (committed != nullptr && *seen == *committed) || *seen == fresh : committed == nullptr;
      };
      const auto first = [&](Flash& f) {
        HeaderFirst storage{&f, {}};
        return save(storage.storage(), fresh);
      };
      each_cut(before, first, [&](Flash& f) {
        *believed += !right(read_format(f.bytes(), f.slot_bytes(), true));
        *loaded += !right(load(f));
      });
      each_cut(
          before, [&](Flash& f) { return save(f, fresh); },
          [&](Flash& f) { *in_order += !right(read_format(f.bytes(), f.slot_bytes(), true)); });
      if (!save(before, fresh)) ++sum.stuck;
      committed = &fresh;
    }
  }

  Sum sum;

 private:
  uint64_t next() { return random_ = random_ * 6364136223846793005u + 1442695040888963407u, random_ >> 33; }

  bool save(const Storage& storage, const Bytes& content, bool pending = false) const {
    const std::span<const std::byte> all = content;
    const size_t state_bytes = content.size() - setup_.note_bytes;
    return Checkpoint(storage).save(model_, all.first(state_bytes), {pending, all.subspan(state_bytes)}).ok();
  }
  bool save(Flash& f, const Bytes& content, bool pending = false) const { return save(f.storage(), content, pending); }

  std::optional<Bytes> load(Flash& f) const {
    Bytes content(contents_[0].size(), std::byte{0x5A});
    const std::span<std::byte> all = content;
    const size_t state_bytes = content.size() - setup_.note_bytes;
    const Status s = Checkpoint(f.storage()).load(model_, all.first(state_bytes), nullptr, all.subspan(state_bytes));
    if (s.ok()) return content;
    return std::nullopt;
  }

  // Runs `act` on copies of `before` whose power fails after 0, 1, 2, ... units of work, until one run finishes.
  template <class Act, class Then>
  void each_cut(const Flash& before, Act act, Then then) {
    for (uint64_t at = 0;; ++at) {
      Flash f = before;
      f.cut_after(at, seed_ + next());
      const bool done = act(f);
      const bool off = f.off();
      f.restore();
      sum.violations += f.violations() - before.violations();
      if (!off) {
        if (!done) ++sum.stuck;
        return;
      }
      ++sum.cuts;
      then(f);
    }
  }

  // Returns the one of `allowed` that is loaded; else counts a wrong load. A null in `allowed` means that none is
  // found.
  const Bytes* judge(Flash& f, std::initializer_list<const Bytes*> allowed) {
    const std::optional<Bytes> seen = load(f);
    sum.disagreed += seen != read_format(f.bytes(), f.slot_bytes(), false);
    for (const Bytes* one : allowed)
      if (seen ? one != nullptr && *seen == *one : one == nullptr) return one;
    ++sum.wrong;
    return nullptr;
  }

  // Saves without a cut.
  void works_on(Flash f) {
    const Bytes& last = contents_[5];
    if (!save(f, last) || load(f) != last) ++sum.stuck;
    sum.violations += f.violations();
  }

  const Model& model_;
  Setup setup_;
  uint64_t seed_, random_ = 7, flash_bytes_ = 0;
  Bytes contents_[6];
};

int claim() {
  const Buffer file = pack(learner(2, nullptr));
  Model model;
  if (!model.open(file.bytes()).ok()) return std::printf("CLAIM power_cuts NOT SHOWN: the model does not open\n"), 1;
  Sum all;
  uint64_t believed = 0, loaded = 0, in_order = 0;
  for (uint64_t seed = 1; seed <= 1; ++seed)
    for (const Setup& setup : kSetups) {
      Cuts cuts(model, setup, seed);
      cuts.saves(4);
      cuts.trials();
      const Sum s = cuts.sum;
      std::fflush(stdout),
          std::printf("program %2u, erase %3u, seed %u: %llu cuts, %llu wrong, %llu stuck\n", setup.program_bytes,
                      setup.erase_bytes, unsigned(seed), static_cast<unsigned long long>(s.cuts),
                      static_cast<unsigned long long>(s.wrong), static_cast<unsigned long long>(s.stuck));
      all.cuts += s.cuts, all.wrong += s.wrong, all.stuck += s.stuck, all.disagreed += s.disagreed;
      all.violations += s.violations;
      Cuts other(model, setup, seed);
      other.broken(&believed, &loaded, &in_order);
      if (other.sum.stuck != 0) ++all.stuck;
    }
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "header first: a reader that believes it is wrong %llu times, load %llu times; header last and believed: %llu\n",
      number(believed), number(loaded), number(in_order));
  const bool shown = all.cuts >= 1'000'000 && all.wrong == 0 && all.stuck == 0 && all.disagreed == 0 &&
                     all.violations == 0 && believed > 0 && loaded == 0;
  std::printf(
      "CLAIM power_cuts %s: %llu cuts, %llu wrong, %llu stuck, %llu seen differently by a second reader, %llu granules "
      "programmed twice; broken on purpose (header first, believed): %llu wrong\n",
      shown ? "shown" : "NOT SHOWN", number(all.cuts), number(all.wrong), number(all.stuck), number(all.disagreed),
      number(all.violations), number(believed));
  return shown ? 0 : 1;
}

}  // namespace
}  // namespace nacre::test

NACRE_CLAIM(power_cuts) {
  if (nacre::test::sanitized()) {
    std::puts("millions of cuts: too long in a sanitized build");
    return 77;
  }
  return nacre::test::claim();
}
