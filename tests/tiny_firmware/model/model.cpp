#include "model/model.hpp"

static const int16_t weights[4] = {3, -5, 7, 11};

int16_t model_step(int16_t x) { return int16_t(x * weights[x & 3]); }
