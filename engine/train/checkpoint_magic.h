// The first bytes of a checkpoint's slot. schema/FORMAT.md, "Checkpoints".
#pragma once

namespace nacre {

inline constexpr char kCheckpointMagic[4] = {'N', 'C', 'K', 'P'};

}  // namespace nacre
