// SPDX-License-Identifier: Apache-2.0
// ptx: numbers of 16 bits, as doubles, which hold each of them and the sum and product of any two.
#pragma once
#include <cmath>
#include <cstdint>

namespace ptx
{

inline double half_of(uint32_t bits)
{
	int exponent = (int)(bits >> 10 & 31), digits = (int)(bits & 1023);
	double value = exponent == 31 ? (digits ? NAN : INFINITY)
		       : exponent     ? std::ldexp(1024 + digits, exponent - 25)
				      : std::ldexp(digits, -24);

	return bits & 0x8000 ? -value : value;
}

// To the nearest, ties to even.
inline uint32_t to_half(double x)
{
	uint32_t sign = std::signbit(x) ? 0x8000 : 0, digits;
	double value = std::fabs(x);
	int exponent;

	if (std::isnan(value))
		return 0x7fff;
	if (value >= 65520.0)
		return sign | 0x7c00;
	if (value < std::ldexp(1.0, -14))
		return sign | (uint32_t)std::nearbyint(std::ldexp(value, 24));
	std::frexp(value, &exponent);
	exponent--;
	digits = (uint32_t)std::nearbyint(std::ldexp(value, 10 - exponent));
	if (digits == 2048) {
		digits = 1024;
		exponent++;
	}
	return sign | (uint32_t)(exponent + 15) << 10 | (digits - 1024);
}

} // namespace ptx
