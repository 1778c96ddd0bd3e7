// Operations that move elements and compute nothing: copies, positions, rows, what an index chooses.
#pragma once
#include "batch_sums.hpp"

namespace batch_engine {

inline size_t number_bytes(const Tensor &t) { return t.kind == DOUBLES ? 8 : 4; }
inline const uint8_t *raw_operand(Machine &m, const Op &op, int i) {
    return op.inputs[i] < 0 ? op.constants<uint8_t>(i) : m.at[op.inputs[i]];
}

enum Moved : int64_t { ROUNDED, RAW };  // RAW: operand and result have one format, numbers move as they are

// Requantizes element `from` of x to element `to` of the output.
struct Mover {
    Store store;
    int64_t domain;
    size_t row_bytes;
    const uint8_t *rows = nullptr;
    const int32_t *ints = nullptr;
    const double *doubles = nullptr;
    const float *floats = nullptr;

    Mover(Machine &m, const Op &op, int input, int64_t shift)
        : store(m, op, shift), domain(op.domain), row_bytes(BATCH * number_bytes(m.tensors[op.out])) {
        if (op.mode == RAW) rows = raw_operand(m, op, input);
        else if (domain == INTEGER) ints = m.operand<int32_t>(op, input);
        else if (domain == CODED) doubles = m.operand<double>(op, input);
        else floats = m.operand<float>(op, input);
    }
    void operator()(int64_t to, int64_t from) {
        if (rows != nullptr) {
            memcpy(store.out + to * row_bytes, rows + from * row_bytes, row_bytes);
        } else if (domain == INTEGER) {
            int64_t wide[BATCH];
            for (int l = 0; l < BATCH; ++l) wide[l] = ints[from * BATCH + l];
            store.ints(to, wide);
        } else if (domain == CODED) {
            store.exact(to, doubles + from * BATCH, nullptr);
        } else {
            store.single(to, floats + from * BATCH);
        }
    }
    // Lane l takes its own element.
    void gathered(int64_t to, const int64_t *from) {
        if (domain == INTEGER) {
            int64_t chosen[BATCH];
            for (int l = 0; l < BATCH; ++l) chosen[l] = ints[from[l] * BATCH + l];
            store.ints(to, chosen);
        } else if (domain == CODED) {
            double chosen[BATCH];
            for (int l = 0; l < BATCH; ++l) chosen[l] = doubles[from[l] * BATCH + l];
            store.exact(to, chosen, nullptr);
        } else {
            float chosen[BATCH];
            for (int l = 0; l < BATCH; ++l) chosen[l] = floats[from[l] * BATCH + l];
            store.single(to, chosen);
        }
    }
};

// params: count; reals: the finished number
inline void fill(Machine &m, const Op &op) {
    Store store(m, op, 0);
    double made[BATCH];
    for (int l = 0; l < BATCH; ++l) made[l] = op.reals[0];
    for (int64_t e = 0; e < op.params[0]; ++e) store.raw(e, made);
}

inline void copy(Machine &m, const Op &op) {
    const Tensor &out = m.tensors[op.out];
    memmove(m.at[op.out], raw_operand(m, op, 0), op.params[0] * BATCH * number_bytes(out));
}

// params: count, shift; data[2]: the positions to read
inline void move(Machine &m, const Op &op) {
    Mover mover(m, op, 0, op.params[1]);
    const int64_t *from = op.constants<int64_t>(2);
    for (int64_t e = 0; e < op.params[0]; ++e) mover(e, from[e]);
}

// params: count of the part, shift, whether others are there already (operand 1); data[2]: the positions to write
inline void place(Machine &m, const Op &op) {
    const Tensor &out = m.tensors[op.out];
    const size_t bytes = out.count * BATCH * number_bytes(out);
    if (!op.params[2]) memset(m.at[op.out], 0, bytes);
    else if (raw_operand(m, op, 1) != m.at[op.out]) memcpy(m.at[op.out], raw_operand(m, op, 1), bytes);
    Mover mover(m, op, 0, op.params[1]);
    const int64_t *to = op.constants<int64_t>(2);
    for (int64_t e = 0; e < op.params[0]; ++e) mover(to[e], e);
}

// params: outer, chosen, size, inner, drop, shift
inline void gather_at(Machine &m, const Op &op) {
    const int64_t outer = op.params[0], chosen = op.params[1], size = op.params[2], inner = op.params[3];
    const int32_t *index = m.operand<int32_t>(op, 0);
    Mover mover(m, op, 1, op.params[5]);
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t c = 0; c < chosen; ++c) {
            int64_t row[BATCH];
            for (int l = 0; l < BATCH; ++l) {
                const int64_t given = index[c * BATCH + l] >> op.params[4], wanted = given < 0 ? given + size : given;
                m.counts[l] += given < -size || given >= size;
                row[l] = (o * size + (wanted < 0 ? 0 : wanted >= size ? size - 1 : wanted)) * inner;
            }
            for (int64_t i = 0; i < inner; ++i) {
                int64_t from[BATCH];
                for (int l = 0; l < BATCH; ++l) from[l] = row[l] + i;
                mover.gathered((o * chosen + c) * inner + i, from);
            }
        }
    }
}

template <class N>
void take(const N *x, const int32_t *counter, int64_t inner, N *out) {
    for (int64_t i = 0; i < inner; ++i) {
        for (int l = 0; l < BATCH; ++l) out[i * BATCH + l] = x[(counter[l] * inner + i) * BATCH + l];
    }
}

// params: inner
inline void take_row(Machine &m, const Op &op) {
    const int32_t *counter = m.operand<int32_t>(op, 0);
    const uint8_t *x = raw_operand(m, op, 1);
    if (number_bytes(m.tensors[op.out]) == 8) {
        take(reinterpret_cast<const double *>(x), counter, op.params[0], m.tensor<double>(op.out));
    } else {
        take(reinterpret_cast<const int32_t *>(x), counter, op.params[0], m.tensor<int32_t>(op.out));
    }
}

template <class N>
void put_row(const N *row, const int32_t *counter, int64_t inner, N *out) {
    for (int64_t i = 0; i < inner; ++i) {
        for (int l = 0; l < BATCH; ++l) out[(counter[l] * inner + i) * BATCH + l] = row[i * BATCH + l];
    }
}

// params: inner
inline void place_row(Machine &m, const Op &op) {
    const Tensor &out = m.tensors[op.out];
    const uint8_t *row = raw_operand(m, op, 0), *present = raw_operand(m, op, 2);
    const int32_t *counter = m.operand<int32_t>(op, 1);
    if (present != m.at[op.out]) memcpy(m.at[op.out], present, out.count * BATCH * number_bytes(out));
    if (number_bytes(out) == 8) put_row(reinterpret_cast<const double *>(row), counter, op.params[0], m.tensor<double>(op.out));
    else put_row(reinterpret_cast<const int32_t *>(row), counter, op.params[0], m.tensor<int32_t>(op.out));
}

template <class N>
void put_at(const N *row, const int64_t *places, const Op &op, N *out) {
    const int64_t outer = op.params[0], size = op.params[1], inner = op.params[2];
    for (int64_t o = 0; o < outer; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
            for (int l = 0; l < BATCH; ++l) {
                out[((o * size + places[l]) * inner + i) * BATCH + l] = row[(o * inner + i) * BATCH + l];
            }
        }
    }
}

// params: outer, size, inner, drop
inline void place_at(Machine &m, const Op &op) {
    const Tensor &out = m.tensors[op.out];
    const uint8_t *row = raw_operand(m, op, 0), *present = raw_operand(m, op, 2);
    const int32_t *index = m.operand<int32_t>(op, 1);
    const int64_t size = op.params[1];
    int64_t places[BATCH];
    for (int l = 0; l < BATCH; ++l) {
        const int64_t given = index[l] >> op.params[3], wanted = given < 0 ? given + size : given;
        m.counts[l] += given < -size || given >= size;
        places[l] = wanted < 0 ? 0 : wanted >= size ? size - 1 : wanted;
    }
    if (present != m.at[op.out]) memcpy(m.at[op.out], present, out.count * BATCH * number_bytes(out));
    if (number_bytes(out) == 8) put_at(reinterpret_cast<const double *>(row), places, op, m.tensor<double>(op.out));
    else put_at(reinterpret_cast<const int32_t *>(row), places, op, m.tensor<int32_t>(op.out));
}

}  // namespace batch_engine
