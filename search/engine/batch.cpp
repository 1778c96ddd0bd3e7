// The batch engine of the search: one shared library for all models and formats. A program arrives as tables
// (search/engine/flatten.py); samples run BATCH at a time, blocks of them on several threads.
#include <atomic>
#include <memory>
#include <thread>

#include "batch_integers.hpp"

namespace batch_engine {

// params: the operation's number among those that numpy executes, for BATCH samples at once
inline void numpy(Machine &m, const Op &op) { m.by_numpy(op.params[0], m.at.data(), m.counts); }

template <class From, class To>
void converted_to(const void *from, void *to, int64_t n) {
    const From *x = static_cast<const From *>(from);
    To *y = static_cast<To *>(to);
    for (int64_t k = 0; k < n; ++k) y[k] = static_cast<To>(x[k]);
}

// Tensors of earlier evaluations, data[0]: [block][element][lane]. params: bytes of a number there
template <bool Saves>
void transfer(Machine &m, const Op &op) {
    const int64_t kind = m.tensors[op.out].kind, bytes = op.params[0], n = op.count * BATCH;
    uint8_t *saved = reinterpret_cast<uint8_t *>(op.data[0]) + m.block * n * bytes, *held = m.at[op.out];
    const void *from = Saves ? held : saved;
    void *to = Saves ? saved : held;
    if (bytes == static_cast<int64_t>(number_bytes(m.tensors[op.out]))) memcpy(to, from, n * bytes);
    else if (kind == DOUBLES && Saves) converted_to<double, float>(from, to, n);
    else if (kind == DOUBLES) converted_to<float, double>(from, to, n);
    else if (bytes == 2 && Saves) converted_to<int32_t, int16_t>(from, to, n);
    else if (bytes == 2) converted_to<int16_t, int32_t>(from, to, n);
    else if (Saves) converted_to<int32_t, int8_t>(from, to, n);
    else converted_to<int8_t, int32_t>(from, to, n);
}
inline void load(Machine &m, const Op &op) { transfer<false>(m, op); }
inline void save(Machine &m, const Op &op) { transfer<true>(m, op); }

// What was clipped since the last one; data[0]: [block][lane]
inline void tally(Machine &m, const Op &op) {
    int32_t *counts = reinterpret_cast<int32_t *>(op.data[0]) + m.block * BATCH;
    for (int l = 0; l < BATCH; ++l) counts[l] += m.counts[l] - m.tallied[l];
    memcpy(m.tallied, m.counts, sizeof m.tallied);
}

using Function = void (*)(Machine &, const Op &);

// In the order of KERNELS in search/engine/tables.py.
const Function KERNELS[] = {
    dense, conv, matmul, add, sub, mul, minimum, maximum, compare, where, relu, sign, truncate, fill, copy, move, place,
    gather_at, take_row, place_row, count, place_at, sum_affine, mul_affine, reduce_sum, reduce_max, reduce_min, arg_max,
    max_pool, average_pool, average_pool_affine, squared_distance, single_sigmoid, single_tanh, single_exp, single_log, single_sqrt,
    single_reciprocal, single_erf, single_gelu, single_gelu_tanh, single_softplus, single_elu, single_clip, single_div,
    single_softmax, single_normalize, slopes, hard_sigmoid, hard_swish,
    dense_at, div, prelu, softmax, softmax_affine, normalize, interpolate, conv_transpose, table, numpy, load, save, tally,
};
constexpr int64_t LOOP = sizeof(KERNELS) / sizeof(KERNELS[0]), SLICE = LOOP + 1;

// How the inputs of all samples lie in memory. DECODED: doubles (kind DOUBLES) or floats as kernels see them.
enum Given : int64_t { INT8, INT16, DECODED };

struct Job {
    int64_t op_count, tensor_count, workspace_bytes, input, output, given;  // input: -1 if nothing reads it
    const Op *ops;
    const Tensor *tensors;
    int64_t samples, log_values, threads;
    const uint8_t *inputs;
    double *outputs;
    uint32_t *saturations;
    double *log;
    void (*by_numpy)(int64_t, uint8_t **, int32_t *);
};

// The numbers of a tensor as doubles, [lane][element]; only the first `count` samples are wanted.
inline void append(Machine &m, int64_t index, int64_t elements, double *to, int64_t stride, int64_t count) {
    const Tensor &t = m.tensors[index];
    for (int64_t l = 0; l < count; ++l) {
        for (int64_t e = 0; e < elements; ++e) {
            const int64_t k = e * BATCH + l;
            to[l * stride + e] = t.kind == INTS ? m.tensor<int32_t>(index)[k]
                                                : t.kind == DOUBLES ? m.tensor<double>(index)[k] : m.tensor<float>(index)[k];
        }
    }
}

struct Block {
    const Job &job;
    Machine &m;
    int64_t first, count, logged = 0;

    template <class From, class To>
    void transpose(To *out) {
        const int64_t elements = job.tensors[job.input].count;
        const From *x = reinterpret_cast<const From *>(job.inputs);
        for (int64_t l = 0; l < BATCH; ++l) {
            const From *row = x + (first + std::min(l, count - 1)) * elements;
            for (int64_t e = 0; e < elements; ++e) out[e * BATCH + l] = static_cast<To>(row[e]);
        }
    }

    void read() {
        const int64_t kind = job.tensors[job.input].kind;
        if (kind == INTS && job.given == INT8) transpose<int8_t>(m.tensor<int32_t>(job.input));
        else if (kind == INTS) transpose<int16_t>(m.tensor<int32_t>(job.input));
        else if (kind == DOUBLES) transpose<double>(m.tensor<double>(job.input));
        else transpose<float>(m.tensor<float>(job.input));
    }

    void run(int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
            const Op &op = job.ops[i];
            if (op.kernel != LOOP) {
                KERNELS[op.kernel](m, op);
                for (int l = 0; l < BATCH; ++l) m.counts[l] += static_cast<int32_t>(op.clipped);
                if (job.log != nullptr) {
                    append(m, op.out, op.count, job.log + first * job.log_values + logged, job.log_values, count);
                    logged += op.count;
                }
                continue;
            }
            const int64_t body = i + 1 + op.params[2], after = body + op.params[1];
            for (int64_t step = 0; step < op.params[0]; ++step) {
                for (int64_t s = i + 1; s < body; ++s) {
                    const Op &slice = job.ops[s];
                    m.at[slice.out] = m.at[slice.inputs[0]] + step * slice.params[0];
                }
                run(body, after);
            }
            i = after - 1;
        }
    }

    void evaluate() {
        memset(m.counts, 0, sizeof m.counts);
        memset(m.tallied, 0, sizeof m.tallied);
        m.block = first / BATCH;
        if (job.input >= 0) read();
        run(0, job.op_count);
        const int64_t elements = job.tensors[job.output].count;
        append(m, job.output, elements, job.outputs + first * elements, elements, count);
        for (int64_t l = 0; l < count; ++l) job.saturations[first + l] = static_cast<uint32_t>(m.counts[l]);
    }
};

}  // namespace batch_engine

extern "C" void hil_batch_run(const batch_engine::Job *job) {
    std::atomic<int64_t> next(0);
    const auto work = [&] {
        const std::unique_ptr<uint8_t[]> memory(new uint8_t[job->workspace_bytes + 64]);
        uint8_t *base = memory.get() + (64 - reinterpret_cast<uintptr_t>(memory.get()) % 64);
        batch_engine::Machine machine;
        machine.tensors = job->tensors;
        machine.by_numpy = job->by_numpy;
        machine.at.resize(job->tensor_count);
        for (int64_t t = 0; t < job->tensor_count; ++t) machine.at[t] = base + job->tensors[t].offset;
        for (int64_t first = next.fetch_add(batch_engine::BATCH); first < job->samples; first = next.fetch_add(batch_engine::BATCH)) {
            batch_engine::Block{*job, machine, first, std::min<int64_t>(batch_engine::BATCH, job->samples - first)}.evaluate();
        }
    };
    std::vector<std::thread> helpers;
    for (int64_t t = 1; t < job->threads; ++t) helpers.emplace_back(work);
    work();
    for (std::thread &helper : helpers) helper.join();
}
