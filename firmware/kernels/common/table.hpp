// Tables made at compile time, as C++11 allows it: one expression per entry.
#pragma once

namespace hil {

template <int... I>
struct Indices {};
template <class A, class B>
struct Joined;
template <int... I, int... J>
struct Joined<Indices<I...>, Indices<J...>> {
    using type = Indices<I..., (static_cast<int>(sizeof...(I)) + J)...>;
};

// Indices<0, 1, ..., N - 1>
template <int N>
struct UpTo {
    using type = typename Joined<typename UpTo<N / 2>::type, typename UpTo<N - N / 2>::type>::type;
};
template <>
struct UpTo<0> {
    using type = Indices<>;
};
template <>
struct UpTo<1> {
    using type = Indices<0>;
};

}  // namespace hil
