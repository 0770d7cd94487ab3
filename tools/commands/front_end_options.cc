#include "tools/commands/convert/options.h"
#include "tools/importers/importer.h"

namespace nacre::tools {
namespace {

using C = ConvertOptions;

const ActsWhen<C> kOfFrontEnd = {
    .with = {"--front-end"}, .fact = "is about a front end", .remedy = "add --front-end FILE"};

OptionTable<C> make_front_end_options() {
  return {
      {.name = "--front-end",
       .value = "FILE",
       .help = "the network that makes features of a frame of samples, what NETWORK reads a window of: one model, that "
               "keeps the older samples and features; a run takes what is new",
       .field = [](C& o) { return &o.front_end.network; },
       .acts = {{.with = {"--hop"}, .fact = "needs to know how far frames are apart", .remedy = "add --hop N"},
                {.without = {"--train"},
                 .fact = "is about a model that only infers",
                 .remedy = "leave it out, or --train"}},
       .text = OptionText::kHash,
       .input = true,
       .files = &files_of_network,
       .stage = Stage::kJoinFrontEnd},
      {.name = "--hop",
       .value = "N",
       .help = "samples from the start of a frame of --front-end to the start of the next",
       .field = [](C& o) { return whole(o.front_end.hop, 1, 1 << 20); },
       .acts = {kOfFrontEnd}},
      {.name = "--hops",
       .value = "N",
       .help = "frames of --front-end that a run takes before NETWORK reads the window [1]",
       .field = [](C& o) { return whole(o.front_end.hops, 1, kMostHops); },
       .acts = {kOfFrontEnd}},
  };
}

}  // namespace

const OptionTable<ConvertOptions>& front_end_options() {
  static const OptionTable<ConvertOptions> table = make_front_end_options();
  return table;
}

}  // namespace nacre::tools
