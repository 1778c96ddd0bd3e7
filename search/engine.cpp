// The host engine of the search: the firmware's own kernels for every mix of storage classes, chosen at run time.
// One shared library serves all models: a program arrives as a flat list of operations (search/flatten.py).
#include <stdint.h>

#include <atomic>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

// Samples run on several threads, so each has a counter of its own. The kernels' declaration of a variable becomes
// the declaration of this function, as with errno.
namespace hil {
inline uint32_t *saturation_counter() {
    static thread_local uint32_t count = 0;
    return &count;
}
}  // namespace hil
#define saturations (*saturation_counter())
#include "firmware/kernels/kernels.hpp"
#undef saturations

namespace {

// `inputs`, `scratch` and `out` are tensor numbers, `params` those of the kernel's record and its own, in the order of
// its arguments. loop_begin: params = {count, operations in the body, slices}; a slice follows for each: inputs[0] is
// the sequence, out the row, params = {bytes of a row}. `count`: elements of the output.
struct Op {
    int64_t kernel, wide, out, inputs[4], scratch, params[20], count;
};

// `kind`: 0 int8, 1 int16, 2 uint16 (tables). `address` is given for constants; others live at `offset` of the workspace.
struct Tensor {
    int64_t kind, bytes, address, offset;
};

using Places = void *const *;
using Function = void (*)(const Op &, Places);

struct Number {
    int64_t value;
    template <class T>
    operator T() const { return static_cast<T>(value); }
};

struct NoRecord {};

// One line per kernel: how many of its inputs are tables, how many are not, whether it has scratch (of the storage
// class of its second input), its record, how many params follow.
#define HIL_KERNEL(name, tables_, inputs_, scratch_, record_, params_)                                          \
    struct name##_kernel {                                                                                      \
        static constexpr int tables = tables_, inputs = inputs_, params = params_;                              \
        static constexpr bool scratch = scratch_;                                                               \
        using Record = record_;                                                                                 \
        template <class Acc, class... Arguments>                                                                \
        static void call(const Arguments &...arguments) { hil::name<Acc>(arguments...); }                       \
    };
HIL_KERNEL(dense, 0, 2, false, NoRecord, 4)
HIL_KERNEL(dense_bias, 0, 3, false, NoRecord, 5)
HIL_KERNEL(matmul, 0, 2, false, NoRecord, 4)
HIL_KERNEL(add, 0, 2, false, NoRecord, 6)
HIL_KERNEL(sub, 0, 2, false, NoRecord, 6)
HIL_KERNEL(mul, 0, 2, false, NoRecord, 4)
HIL_KERNEL(relu, 0, 1, false, NoRecord, 2)
HIL_KERNEL(sigmoid, 1, 1, false, NoRecord, 5)
HIL_KERNEL(tanh, 1, 1, false, NoRecord, 5)
HIL_KERNEL(copy, 0, 1, false, NoRecord, 1)
HIL_KERNEL(fill, 0, 0, false, NoRecord, 2)
HIL_KERNEL(conv, 0, 2, true, hil::Window, 3)
HIL_KERNEL(conv_bias, 0, 3, true, hil::Window, 4)
HIL_KERNEL(max_pool, 0, 1, false, hil::Window, 1)
HIL_KERNEL(average_pool, 0, 1, false, hil::Window, 2)
HIL_KERNEL(average_pool_inside, 1, 1, false, hil::Window, 1)
HIL_KERNEL(move, 0, 1, false, hil::Block, 1)
HIL_KERNEL(place, 0, 1, false, hil::Block, 1)
HIL_KERNEL(place_more, 0, 2, false, hil::Block, 1)
HIL_KERNEL(gather_rows, 1, 1, false, NoRecord, 5)
HIL_KERNEL(softmax, 1, 1, false, NoRecord, 5)
HIL_KERNEL(clip, 0, 1, false, NoRecord, 4)
HIL_KERNEL(slopes, 0, 1, false, NoRecord, 4)
HIL_KERNEL(hard_sigmoid, 0, 1, false, NoRecord, 5)
HIL_KERNEL(hard_swish, 0, 1, false, NoRecord, 5)
HIL_KERNEL(minimum, 0, 2, false, NoRecord, 6)
HIL_KERNEL(maximum, 0, 2, false, NoRecord, 6)
HIL_KERNEL(reduce_sum, 0, 1, false, NoRecord, 5)
HIL_KERNEL(reduce_max, 0, 1, false, NoRecord, 4)
HIL_KERNEL(reduce_min, 0, 1, false, NoRecord, 4)
HIL_KERNEL(arg_max, 0, 1, false, NoRecord, 4)
HIL_KERNEL(exp, 1, 1, false, NoRecord, 4)
HIL_KERNEL(log, 1, 1, false, NoRecord, 3)
HIL_KERNEL(div, 0, 2, false, NoRecord, 5)
HIL_KERNEL(sqrt, 0, 1, false, NoRecord, 2)
HIL_KERNEL(compare, 0, 2, false, NoRecord, 7)
HIL_KERNEL(sign, 0, 1, false, NoRecord, 4)
HIL_KERNEL(truncate, 0, 1, false, NoRecord, 3)
HIL_KERNEL(where, 0, 3, false, NoRecord, 6)
HIL_KERNEL(gather_at, 0, 2, false, NoRecord, 6)
HIL_KERNEL(take_row, 0, 2, false, NoRecord, 1)
HIL_KERNEL(place_row, 0, 3, false, NoRecord, 1)
HIL_KERNEL(count, 0, 1, false, NoRecord, 1)
HIL_KERNEL(curve, 1, 1, false, NoRecord, 11)
HIL_KERNEL(normalize, 0, 1, false, NoRecord, 8)
HIL_KERNEL(conv_transpose, 0, 3, false, hil::Window, 4)
HIL_KERNEL(interpolate, 1, 1, false, NoRecord, 5)
HIL_KERNEL(batch_matmul, 0, 2, false, NoRecord, 7)
HIL_KERNEL(prelu, 0, 2, false, NoRecord, 5)
HIL_KERNEL(squared_distance, 0, 2, false, NoRecord, 8)
HIL_KERNEL(sparse_dense, 1, 2, false, NoRecord, 4)
HIL_KERNEL(sparse_dense_bias, 1, 3, false, NoRecord, 5)
HIL_KERNEL(dense_at, 0, 3, false, NoRecord, 6)

// Plain ints, but for kernels whose factors are as wide as the accumulator.
template <class Kernel> struct Param { using type = int32_t; };
template <> struct Param<slopes_kernel> { using type = int64_t; };
template <> struct Param<hard_sigmoid_kernel> { using type = int64_t; };
template <> struct Param<hard_swish_kernel> { using type = int64_t; };

template <class Record, size_t... I>
Record record_of(const int64_t *params, std::index_sequence<I...>) { return Record{Number{params[I]}...}; }

// All fields of a record are as wide as a Size.
template <class Record>
constexpr size_t fields = std::is_empty<Record>::value ? 0 : sizeof(Record) / sizeof(hil::Size);

template <class Kernel, class Acc, class Out, class... In>
struct Call {
    // flatten: so many instances exceed what the compiler inlines of itself
    __attribute__((flatten)) static void run(const Op &op, Places at) {
        with_tables(op, at, std::make_index_sequence<Kernel::tables>(), std::make_index_sequence<sizeof...(In)>());
    }

    template <size_t... T, size_t... I>
    static void with_tables(const Op &op, Places at, std::index_sequence<T...>, std::index_sequence<I...>) {
        with_params(op, at, std::make_index_sequence<Kernel::params>(), in<uint16_t>(op, at, T)...,
                    in<In>(op, at, Kernel::tables + I)...);
    }

    template <size_t... P, class... Inputs>
    static void with_params(const Op &op, Places at, std::index_sequence<P...>, const Inputs &...inputs) {
        using Record = typename Kernel::Record;
        using Value = typename Param<Kernel>::type;
        constexpr size_t first = fields<Record>;
        Out *const out = static_cast<Out *>(at[op.out]);
        if constexpr (first == 0) {
            Kernel::template call<Acc>(out, inputs..., static_cast<Value>(op.params[P])...);
        } else {
            const Record record = record_of<Record>(op.params, std::make_index_sequence<first>());
            if constexpr (Kernel::scratch) {
                using Patch = std::tuple_element_t<1, std::tuple<In...>>;
                Kernel::template call<Acc>(out, static_cast<Patch *>(at[op.scratch]), inputs..., record,
                                           static_cast<Value>(op.params[first + P])...);
            } else {
                Kernel::template call<Acc>(out, inputs..., record, static_cast<Value>(op.params[first + P])...);
            }
        }
    }

    template <class T>
    static hil::Ram<T> in(const Op &op, Places at, size_t index) {
        return hil::ram(static_cast<const T *>(at[op.inputs[index]]));
    }
};

// Binds the storage classes `kind[0..Left)` one after the other.
template <class Kernel, int Left, class... Types>
struct Choose {
    static Function of(const int64_t *kind) {
        if (*kind == 0) return Choose<Kernel, Left - 1, Types..., int8_t>::of(kind + 1);
        if (*kind == 1) return Choose<Kernel, Left - 1, Types..., int16_t>::of(kind + 1);
        return nullptr;
    }
};
template <class Kernel, class... Types>
struct Choose<Kernel, 0, Types...> {
    static Function of(const int64_t *) { return &Call<Kernel, Types...>::run; }
};

template <class Kernel>
Function function_for(const Op &op, const Tensor *tensors) {
    int64_t kinds[5] = {tensors[op.out].kind, 0, 0, 0, 0};
    for (int i = 0; i < Kernel::tables; ++i) {
        if (tensors[op.inputs[i]].kind != 2) return nullptr;
    }
    for (int i = 0; i < Kernel::inputs; ++i) kinds[i + 1] = tensors[op.inputs[Kernel::tables + i]].kind;
    if (Kernel::scratch && tensors[op.scratch].kind != kinds[2]) return nullptr;
    return op.wide ? Choose<Kernel, 1 + Kernel::inputs, int64_t>::of(kinds)
                   : Choose<Kernel, 1 + Kernel::inputs, int32_t>::of(kinds);
}

// In the order of KERNELS in search/flatten.py.
Function (*const kernels[])(const Op &, const Tensor *) = {
    function_for<dense_kernel>, function_for<dense_bias_kernel>, function_for<matmul_kernel>,
    function_for<add_kernel>, function_for<sub_kernel>, function_for<mul_kernel>,
    function_for<relu_kernel>, function_for<sigmoid_kernel>, function_for<tanh_kernel>,
    function_for<copy_kernel>, function_for<fill_kernel>, function_for<conv_kernel>,
    function_for<conv_bias_kernel>, function_for<max_pool_kernel>, function_for<average_pool_kernel>,
    function_for<average_pool_inside_kernel>, function_for<move_kernel>, function_for<place_kernel>,
    function_for<place_more_kernel>, function_for<gather_rows_kernel>, function_for<softmax_kernel>,
    function_for<clip_kernel>, function_for<slopes_kernel>, function_for<hard_sigmoid_kernel>,
    function_for<hard_swish_kernel>, function_for<minimum_kernel>, function_for<maximum_kernel>,
    function_for<reduce_sum_kernel>, function_for<reduce_max_kernel>, function_for<reduce_min_kernel>,
    function_for<arg_max_kernel>,
    function_for<exp_kernel>, function_for<log_kernel>, function_for<div_kernel>,
    function_for<sqrt_kernel>, function_for<compare_kernel>, function_for<sign_kernel>,
    function_for<truncate_kernel>, function_for<where_kernel>, function_for<gather_at_kernel>,
    function_for<take_row_kernel>, function_for<place_row_kernel>, function_for<count_kernel>,
    function_for<curve_kernel>, function_for<normalize_kernel>, function_for<conv_transpose_kernel>,
    function_for<interpolate_kernel>, function_for<batch_matmul_kernel>, function_for<prelu_kernel>,
    function_for<squared_distance_kernel>, function_for<sparse_dense_kernel>, function_for<sparse_dense_bias_kernel>,
    function_for<dense_at_kernel>,
};
constexpr int64_t loop_begin = sizeof(kernels) / sizeof(kernels[0]), slice = loop_begin + 1;

struct Machine {
    const std::vector<Op> &ops;
    const std::vector<Function> &functions;
    const Tensor *tensors;
    std::vector<void *> at;
    int16_t *log;

    void run(size_t begin, size_t end) {
        for (size_t i = begin; i < end; ++i) {
            const Op &op = ops[i];
            if (op.kernel != loop_begin) {
                functions[i](op, at.data());
                if (log != nullptr) append(op);
                continue;
            }
            const size_t first = i + 1 + op.params[2], after = first + op.params[1];
            for (int64_t step = 0; step < op.params[0]; ++step) {
                for (size_t s = i + 1; s < first; ++s) {
                    at[ops[s].out] = static_cast<uint8_t *>(at[ops[s].inputs[0]]) + step * ops[s].params[0];
                }
                run(first, after);
            }
            i = after - 1;
        }
    }

    void append(const Op &op) {
        for (int64_t n = 0; n < op.count; ++n) {
            *log++ = tensors[op.out].kind ? static_cast<int16_t *>(at[op.out])[n] : static_cast<int8_t *>(at[op.out])[n];
        }
    }
};

}  // namespace

struct Job {
    int64_t op_count, tensor_count, workspace_bytes, input, output;
    const Op *ops;
    const Tensor *tensors;
    int64_t samples, log_values, threads;
    const uint8_t *inputs;
    uint8_t *outputs;
    uint32_t *saturations;
    int16_t *log;
};

// 0, or 1 + the number of an operation whose storage classes no kernel takes.
extern "C" int64_t hil_engine_run(const Job *job) {
    const std::vector<Op> ops(job->ops, job->ops + job->op_count);
    std::vector<Function> functions(ops.size(), nullptr);
    for (size_t i = 0; i < ops.size(); ++i) {
        if (ops[i].kernel == loop_begin || ops[i].kernel == slice) continue;
        functions[i] = kernels[ops[i].kernel](ops[i], job->tensors);
        if (functions[i] == nullptr) return static_cast<int64_t>(i) + 1;
    }
    const Tensor &source = job->tensors[job->input], &result = job->tensors[job->output];
    std::atomic<int64_t> next(0);
    const auto work = [&] {
        std::vector<int64_t> memory(job->workspace_bytes / 8 + 1);
        Machine machine{ops, functions, job->tensors, std::vector<void *>(job->tensor_count), nullptr};
        for (int64_t t = 0; t < job->tensor_count; ++t) {
            const Tensor &tensor = job->tensors[t];
            machine.at[t] = tensor.address ? reinterpret_cast<void *>(tensor.address)
                                           : reinterpret_cast<uint8_t *>(memory.data()) + tensor.offset;
        }
        for (int64_t sample = next++; sample < job->samples; sample = next++) {
            machine.at[job->input] = const_cast<uint8_t *>(job->inputs) + sample * source.bytes;
            machine.log = job->log == nullptr ? nullptr : job->log + sample * job->log_values;
            *hil::saturation_counter() = 0;
            machine.run(0, ops.size());
            const uint8_t *found = static_cast<const uint8_t *>(machine.at[job->output]);
            for (int64_t n = 0; n < result.bytes; ++n) job->outputs[sample * result.bytes + n] = found[n];
            job->saturations[sample] = *hil::saturation_counter();
        }
    };
    std::vector<std::thread> helpers;
    for (int64_t t = 1; t < job->threads; ++t) helpers.emplace_back(work);
    work();
    for (std::thread &helper : helpers) helper.join();
    return 0;
}
