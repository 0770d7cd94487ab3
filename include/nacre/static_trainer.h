/* Trains the programs that `nacre firmware --train` writes. */
#pragma once

#include "engine/train/static_trainer.h"
