fn rx_bits(bits: u32) -> f32 {
    return bitcast<f32>(bits);
}

fn rx_keep(a: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(a) + u32(given.end));
}

fn rx_truth(a: bool) -> bool {
    return select(0i, 1i, a) + given.end != 0i;
}

fn rx_neg_f32(a: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(a) ^ 0x80000000u);
}

fn rx_is_nan(a: f32) -> bool {
    return (bitcast<u32>(a) & 0x7fffffffu) > 0x7f800000u;
}

fn rx_f32_of_bf16(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}

fn rx_bf16_of_f32(a: f32) -> u32 {
    let bits = bitcast<u32>(a);
    if rx_is_nan(a) { return (bits >> 16u) | 0x40u; }
    return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}

fn rx_round_bf16(a: f32) -> f32 {
    return rx_f32_of_bf16(rx_bf16_of_f32(a));
}

fn rx_f32_of_f16(bits: u32) -> f32 {
    let sign = (bits & 0x8000u) << 16u;
    let exponent = (bits >> 10u) & 0x1fu;
    let digits = bits & 0x3ffu;
    if exponent == 31u { return bitcast<f32>(sign | 0x7f800000u | (digits << 13u)); }
    if exponent != 0u { return bitcast<f32>(sign | ((exponent + 112u) << 23u) | (digits << 13u)); }
    let small = f32(digits) * 5.9604644775390625e-8f;
    return bitcast<f32>(sign | bitcast<u32>(small));
}

fn rx_f16_of_f32(a: f32) -> u32 {
    let bits = bitcast<u32>(a);
    let sign = (bits >> 16u) & 0x8000u;
    let rest = bits & 0x7fffffffu;
    if rest > 0x7f800000u { return sign | 0x7e00u; }
    if rest >= 0x477ff000u { return sign | 0x7c00u; }
    if rest >= 0x38800000u {
        return sign | ((rest + 0xfffu + ((rest >> 13u) & 1u) - 0x38000000u) >> 13u);
    }
    if rest < 0x33000000u { return sign; }
    let digits = (rest & 0x7fffffu) | 0x800000u;
    let shift = 126u - (rest >> 23u);
    let half = 1u << (shift - 1u);
    return sign | ((digits + half - 1u + ((digits >> shift) & 1u)) >> shift);
}

fn rx_round_f16(a: f32) -> f32 {
    return rx_f32_of_f16(rx_f16_of_f32(a));
}

fn rx_f32_of_magnitude(a: vec2<u32>) -> f32 {
    if a.y == 0u { return rx_f32_of_u32(a.x); }
    let shift = 32u - countLeadingZeros(a.y);
    let top = rx_shr_u64(a, shift).x;
    let lost = (a.x & ((1u << shift) - 1u)) != 0u;
    if shift == 32u {
        return rx_f32_of_u32(a.y | select(0u, 1u, a.x != 0u)) * 4294967296.0f;
    }
    return rx_f32_of_u32(top | select(0u, 1u, lost)) * f32(1u << shift);
}

fn rx_f32_of_u32(a: u32) -> f32 {
    if a < 0x1000000u { return f32(a); }
    let shift = 8u - countLeadingZeros(a);
    let lost = a & ((1u << shift) - 1u);
    let half = 1u << (shift - 1u);
    var digits = a >> shift;
    if lost > half || (lost == half && (digits & 1u) == 1u) { digits += 1u; }
    return f32(digits) * f32(1u << shift);
}

fn rx_f32_of_i32(a: i32) -> f32 {
    if a < 0i { return -rx_f32_of_u32(0u - u32(a)); }
    return rx_f32_of_u32(u32(a));
}

fn rx_f32_of_u64(a: vec2<u32>) -> f32 {
    return rx_f32_of_magnitude(a);
}

fn rx_f32_of_i64(a: vec2<u32>) -> f32 {
    if i32(a.y) < 0i { return -rx_f32_of_magnitude(rx_neg_64(a)); }
    return rx_f32_of_magnitude(a);
}

fn rx_i32_of_f32(a: f32, low: i32, high: i32) -> i32 {
    if rx_is_nan(a) { return 0i; }
    if a >= 2147483648.0f { return high; }
    if a < -2147483648.0f { return low; }
    return clamp(i32(a), low, high);
}

fn rx_u32_of_f32(a: f32, high: u32) -> u32 {
    if rx_is_nan(a) || a <= 0.0f { return 0u; }
    if a >= 4294967296.0f { return high; }
    return min(u32(a), high);
}

fn rx_u64_of_f32(a: f32) -> vec2<u32> {
    if rx_is_nan(a) || a <= 0.0f { return vec2<u32>(0u, 0u); }
    if a >= 18446744073709551616.0f { return vec2<u32>(0xffffffffu, 0xffffffffu); }
    let high = floor(a * 2.3283064365386963e-10f);
    return vec2<u32>(u32(a - high * 4294967296.0f), u32(high));
}

fn rx_i64_of_f32(a: f32) -> vec2<u32> {
    if a >= 9223372036854775808.0f { return vec2<u32>(0xffffffffu, 0x7fffffffu); }
    if a <= -9223372036854775808.0f { return vec2<u32>(0u, 0x80000000u); }
    if a < 0.0f { return rx_neg_64(rx_u64_of_f32(-a)); }
    return rx_u64_of_f32(a);
}

fn rx_odd_u64(a: vec2<u32>) -> f32 {
    if a.y == 0u && a.x < 0x1000000u { return f32(a.x); }
    let zeros = select(countLeadingZeros(a.y), 32u + countLeadingZeros(a.x), a.y == 0u);
    let shift = 40u - zeros;
    let top = rx_shr_u64(a, shift);
    let back = rx_shl_64(top, shift);
    let digits = top.x | select(1u, 0u, rx_equal_64(back, a));
    return f32(digits) * bitcast<f32>((shift + 127u) << 23u);
}

fn rx_odd_i64(a: vec2<u32>) -> f32 {
    if i32(a.y) < 0i { return -rx_odd_u64(rx_neg_64(a)); }
    return rx_odd_u64(a);
}
