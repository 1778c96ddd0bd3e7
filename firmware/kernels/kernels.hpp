// All kernels. Every kernel is a template `name<Acc>(out, inputs..., params...)`: Acc is the accumulator.
#pragma once
#include "firmware/kernels/activation.hpp"
#include "firmware/kernels/block.hpp"
#include "firmware/kernels/conv.hpp"
#include "firmware/kernels/dense.hpp"
#include "firmware/kernels/elementwise.hpp"
#include "firmware/kernels/move.hpp"
#include "firmware/kernels/piecewise.hpp"
#include "firmware/kernels/pool.hpp"
#include "firmware/kernels/reduce.hpp"
#include "firmware/kernels/rows.hpp"
#include "firmware/kernels/softmax.hpp"
