// Pictures (PNG, JPEG) and sounds (WAV and what else libsndfile reads) as arrays; libpng, libjpeg-turbo, libsndfile.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/files/npy.h"

namespace nacre::tools {

bool is_picture(const std::string& path);  // by its extension: .png, .jpg, .jpeg
bool is_sound(const std::string& path);    // .wav, .flac, .ogg

// uint8 [height, width, channels], `channels` 1 (grey) or 3 (red, green, blue). At most 2^28 numbers. Throws Error.
NpyArray read_picture(const std::string& path, int channels);

struct Sound {
  int rate = 0;              // samples a second
  std::vector<int16_t> pcm;  // of one channel
};
Sound read_sound(const std::string& path);  // refuses more channels than one

}  // namespace nacre::tools
