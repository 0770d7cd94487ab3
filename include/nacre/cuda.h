/* Declares the port to NVIDIA's GPUs. */
#pragma once

#include "ports/cuda/cuda_port.h"
