// Comparison of two types, as far as a caller and a function must agree on them.
#pragma once

#include <type_traits>

/// Structures, and handles of incomplete types, that stand for each other: specialized for each
/// pair. The layouts of structures are compared elsewhere.
template <typename Ours, typename Theirs>
inline constexpr bool kPair = false;

/// True if two pointers to functions return and take the same, by value or by pointer.
template <typename Ours, typename Theirs>
inline constexpr bool kSameFunction = false;

template <typename Ours, typename Theirs>
constexpr bool same_abi() {
  if constexpr (std::is_same_v<Ours, Theirs>) {
    return true;
  } else if constexpr (std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>) {
    using A = std::remove_pointer_t<Ours>;
    using B = std::remove_pointer_t<Theirs>;
    if constexpr (std::is_function_v<A> && std::is_function_v<B>) {
      return kSameFunction<Ours, Theirs>;
    }
    return std::is_const_v<A> == std::is_const_v<B> &&
           same_abi<std::remove_const_t<A>, std::remove_const_t<B>>();
  } else if constexpr (std::is_enum_v<Theirs>) {
    // types.hpp writes `int` or `unsigned` for each enumeration.
    return std::is_integral_v<Ours> && sizeof(Ours) == sizeof(Theirs);
  } else {
    return kPair<Ours, Theirs>;
  }
}

template <typename A, typename... As, typename B, typename... Bs>
  requires(sizeof...(As) == sizeof...(Bs))
inline constexpr bool kSameFunction<A (*)(As...), B (*)(Bs...)> =
    same_abi<A, B>() && (same_abi<As, Bs>() && ...);
