// Reads pictures (PNG, JPEG) and sounds (WAV and other formats of libsndfile) as arrays, with libpng, libjpeg-turbo
// and libsndfile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/files/npy.h"

namespace nacre::tools {

bool is_picture(const std::string& path);  // by its extension: .png, .jpg, .jpeg
bool is_sound(const std::string& path);    // .wav, .flac, .ogg

// Returns uint8 [height, width, channels], with `channels` 1 (grey) or 3 (red, green, blue). Throws Error for another
// format than PNG and JPEG, for more than 256 MiB of file or 2^28 numbers, and for a damaged file.
NpyArray read_picture(const std::string& path, int channels);

struct Sound {
  int rate = 0;              // samples a second
  std::vector<int16_t> pcm;  // one channel
};
Sound read_sound(const std::string& path);  // refuses a sound with several channels

}  // namespace nacre::tools
