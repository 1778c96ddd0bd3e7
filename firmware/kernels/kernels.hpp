// All kernels. Every kernel is a template `name<Acc>(out, inputs..., params...)`: Acc is the accumulator.
#pragma once
#include "firmware/kernels/activation.hpp"
#include "firmware/kernels/dense.hpp"
#include "firmware/kernels/elementwise.hpp"
#include "firmware/kernels/move.hpp"
