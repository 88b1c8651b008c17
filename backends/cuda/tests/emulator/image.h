// What the emulated compiler makes and the emulated driver loads: this, and a shared object behind it.
#pragma once
#include <stdint.h>

struct Image {
    char mark[8];
    char architecture[16];
    uint64_t bytes;
};
static const char IMAGE_MARK[8] = {'E', 'M', 'U', 'L', 'C', 'U', 'D', 'A'};
