/* Declares the port for NVIDIA GPUs, for C. */
#pragma once

#include "ports/cuda/c_api/cuda_c.h"
