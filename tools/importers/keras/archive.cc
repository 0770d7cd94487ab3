// Reads a .keras file, a zip archive. Nothing is unpacked to disk. Memory is bounded by constants and a multiple of the
// file's size, even if the archive's directory says more.
#include "tools/base/budget.h"
#include "tools/files/zip_archive.h"
#include "tools/importers/keras/importer.h"

namespace nacre::tools::keras {
namespace {

constexpr uint64_t kMostConfig = uint64_t{64} << 20;
constexpr int kMostDepth = 200;

}  // namespace

Archive read_archive(std::span<const uint8_t> bytes, const std::string& place) {
  const ZipArchive archive(bytes, place, "open it in Keras and save it again");
  Archive made;
  const auto text = [&](const char* name) {
    const std::vector<uint8_t> member = archive.member(name, kMostConfig);
    return std::string(member.begin(), member.end());
  };
  made.config = text("config.json");
  if (made.config.empty())
    throw Error(kBadInput, place, "is a zip archive without config.json, so it is no .keras file", "give a network");
  made.metadata = text("metadata.json");
  made.weights = archive.member("model.weights.h5", Budget::kBytes + Budget::kTimes * bytes.size());
  if (made.weights.empty())
    throw Error(kUnsupported, place, "has no model.weights.h5",
                "save it whole: weights in several files or in .npz are not read");
  return made;
}

Json parse_config(const std::string& text, const std::string& place) {
  try {
    return Json::parse(text, [&](int depth, Json::Event, const std::string&) {
      if (depth > kMostDepth) throw Error(kBadInput, place, "its configuration is nested too deep");
    });
  } catch (const JsonError& error) {
    throw Error(kBadInput, place, std::string("its configuration is no JSON: ") + error.what());
  }
}

}  // namespace nacre::tools::keras
