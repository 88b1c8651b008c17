fn rx_max_f32(a: f32, b: f32) -> f32 {
    if rx_truth(a >= b) || rx_is_nan(a) { return a; }
    return b;
}

fn rx_min_f32(a: f32, b: f32) -> f32 {
    if rx_truth(a <= b) || rx_is_nan(a) { return a; }
    return b;
}

fn rx_div_f32(a: f32, b: f32) -> f32 {
    let x = bitcast<u32>(a) & 0x7fffffffu;
    let y = bitcast<u32>(b) & 0x7fffffffu;
    if x > 0x7f800000u || y > 0x7f800000u || (x == 0u && y == 0u) || (x == 0x7f800000u && y == x) {
        return rx_bits(0x7fc00000u);
    }
    let sign = (bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u;
    if y == 0u || x == 0x7f800000u { return rx_bits(sign | 0x7f800000u); }
    if x == 0u || y == 0x7f800000u { return rx_bits(sign); }
    return a / b;
}

fn rx_fmod_f32(a: f32, b: f32) -> f32 {
    if rx_is_nan(a) || rx_is_nan(b) || b == 0.0f || abs(a) == rx_bits(0x7f800000u) { return rx_bits(0x7fc00000u); }
    if abs(b) == rx_bits(0x7f800000u) { return a; }
    let size = abs(b);
    var rest = abs(a);
    for (var round = 0i; round < 300i && rest >= size; round++) {
        var step = size;
        for (var up = 0i; up < 300i && step * 2.0f <= rest; up++) { step = step * 2.0f; }
        rest = rest - step;
    }
    return select(rest, -rest, a < 0.0f);
}

fn rx_floormod_f32(a: f32, b: f32) -> f32 {
    let rest = rx_fmod_f32(a, b);
    if rest == 0.0f { return select(0.0f, rx_bits(0x80000000u), (bitcast<u32>(b) >> 31u) == 1u); }
    return select(rest, rest + b, (rest < 0.0f) != (b < 0.0f));
}

fn rx_floordiv_f32(a: f32, b: f32) -> f32 {
    if b == 0.0f { return a / b; }
    let rest = rx_fmod_f32(a, b);
    var quotient = (a - rest) / b;
    if rest != 0.0f && (rest < 0.0f) != (b < 0.0f) { quotient = quotient - 1.0f; }
    if quotient == 0.0f {
        let negative = (bitcast<u32>(a) >> 31u) != (bitcast<u32>(b) >> 31u);
        return select(0.0f, rx_bits(0x80000000u), negative);
    }
    let whole = floor(quotient);
    return select(whole, whole + 1.0f, quotient - whole > 0.5f);
}

fn rx_exp_f32(a: f32) -> f32 {
    if rx_is_nan(a) { return a; }
    if a > 88.8f { return rx_bits(0x7f800000u); }
    if a < -104.0f { return 0.0f; }
    let k = round(a * 1.44269504f);
    let r = (a - k * 0.693359375f) - k * -2.12194440e-4f;
    let p = 1.0f + r * (1.0f + r * (0.5f + r * (0.16666667f + r * (0.041666668f + r * (0.008333334f
        + r * 0.0013888889f)))));
    let half = i32(k) / 2i;
    let rest = i32(k) - half;
    return p * bitcast<f32>(u32(half + 127i) << 23u) * bitcast<f32>(u32(rest + 127i) << 23u);
}

fn rx_expm1_f32(a: f32) -> f32 {
    if abs(a) > 0.3f { return rx_exp_f32(a) - 1.0f; }
    return a + a * a * (0.5f + a * (0.16666667f + a * (0.041666668f + a * (0.008333334f
        + a * (0.0013888889f + a * 0.00019841270f)))));
}

fn rx_log_f32(a: f32) -> f32 {
    if rx_is_nan(a) || a < 0.0f { return rx_bits(0x7fc00000u); }
    if a == 0.0f { return rx_bits(0xff800000u); }
    if a == rx_bits(0x7f800000u) { return a; }
    var x = a;
    var k = -127i;
    if a < 1.17549435e-38f { x = a * 16777216.0f; k = -151i; }
    let bits = bitcast<u32>(x);
    k += i32(bits >> 23u);
    var m = bitcast<f32>((bits & 0x7fffffu) | 0x3f800000u);
    if m > 1.41421356f { m = m * 0.5f; k += 1i; }
    let f = (m - 1.0f) / (m + 1.0f);
    let s = f * f;
    let p = s * (0.33333333f + s * (0.2f + s * (0.14285715f + s * 0.11111111f)));
    return f32(k) * 0.693359375f + (2.0f * f + (2.0f * f * p + f32(k) * -2.12194440e-4f));
}

fn rx_log1p_f32(a: f32) -> f32 {
    let u = 1.0f + a;
    if u == 1.0f || a == rx_bits(0x7f800000u) { return a; }
    if u <= 0.0f { return rx_log_f32(u); }
    return rx_log_f32(u) * (a / (u - 1.0f));
}

fn rx_sigmoid_f32(a: f32) -> f32 {
    if a >= 0.0f { return 1.0f / (1.0f + rx_exp_f32(-a)); }
    let e = rx_exp_f32(a);
    return e / (1.0f + e);
}

fn rx_tanh_f32(a: f32) -> f32 {
    let x = abs(a);
    if x > 10.0f { return select(1.0f, -1.0f, a < 0.0f); }
    let e = rx_expm1_f32(2.0f * x);
    let t = select(e / (e + 2.0f), x, x < 1e-4f);
    return select(t, -t, (bitcast<u32>(a) >> 31u) == 1u);
}

fn rx_sinh_f32(a: f32) -> f32 {
    let x = abs(a);
    if rx_is_nan(a) || x < 1e-4f { return a; }
    var value = rx_exp_f32(x * 0.5f);
    value = 0.5f * value * value;
    if x < 20.0f {
        let e = rx_expm1_f32(x);
        value = 0.5f * (e + e / (e + 1.0f));
    }
    return select(value, -value, a < 0.0f);
}

fn rx_cosh_f32(a: f32) -> f32 {
    let e = rx_exp_f32(abs(a) * 0.5f);
    return 0.5f * e * e + 0.5f / e / e;
}

fn rx_sin_f32(a: f32) -> f32 {
    if !(abs(a) < rx_bits(0x7f800000u)) { return rx_bits(0x7fc00000u); }
    if abs(a) > 8192.0f { rx_stop(1u); }
    let k = round(a * 0.63661977f);
    let r = ((a - k * 1.5703125f) - k * 4.83751297e-4f) - k * 7.54978942e-8f;
    return rx_turned_f32(r, i32(k));
}

fn rx_turned_f32(r: f32, quarter: i32) -> f32 {
    let s = r * r;
    var value = r + r * s * (-0.16666667f + s * (0.0083333333f + s * (-1.9841270e-4f + s * 2.7557319e-6f)));
    if (quarter & 1i) == 1i {
        value = 1.0f + s * (-0.5f + s * (0.041666667f + s * (-0.0013888889f + s * 2.4801587e-5f)));
    }
    return select(value, -value, (quarter & 2i) == 2i);
}

fn rx_cos_f32(a: f32) -> f32 {
    if !(abs(a) < rx_bits(0x7f800000u)) { return rx_bits(0x7fc00000u); }
    if abs(a) > 8192.0f { rx_stop(1u); }
    let k = round(a * 0.63661977f);
    let r = ((a - k * 1.5703125f) - k * 4.83751297e-4f) - k * 7.54978942e-8f;
    return rx_turned_f32(r, i32(k) + 1i);
}

fn rx_tan_f32(a: f32) -> f32 {
    return rx_sin_f32(a) / rx_cos_f32(a);
}

fn rx_atan_f32(a: f32) -> f32 {
    if rx_is_nan(a) { return a; }
    var x = abs(a);
    var base = 0.0f;
    var low = 0.0f;
    if x > 2.41421356f { x = -1.0f / x; base = 1.57079637f; low = -4.3711388e-8f; }
    else if x > 0.41421357f { x = (x - 1.0f) / (x + 1.0f); base = 0.785398185f; low = -2.1855694e-8f; }
    let s = x * x;
    var sum = 0.0f;
    for (var n = rx_few(13i); n >= 1i; n--) {
        let term = 1.0f / f32(2i * n + 1i);
        sum = s * (select(term, -term, (n & 1i) == 1i) + sum);
    }
    let value = base + ((x + x * sum) + low);
    return select(value, -value, (bitcast<u32>(a) >> 31u) == 1u);
}

fn rx_atan2_f32(y: f32, x: f32) -> f32 {
    if rx_is_nan(x) || rx_is_nan(y) { return rx_bits(0x7fc00000u); }
    let back = (bitcast<u32>(x) >> 31u) == 1u;
    var turn = 0.0f;
    let far = rx_bits(0x7f800000u);
    if y == 0.0f { turn = 0.0f; }
    else if abs(y) == far && abs(x) == far { turn = 0.785398163f; }
    else if abs(x) == far { turn = 0.0f; }
    else if x == 0.0f || abs(y) == far { turn = 1.57079633f; }
    else { turn = rx_atan_f32(abs(y) / abs(x)); }
    if back { turn = 3.14159265f - turn; }
    return select(turn, -turn, (bitcast<u32>(y) >> 31u) == 1u);
}

fn rx_asin_f32(a: f32) -> f32 {
    if !(abs(a) <= 1.0f) { return rx_bits(0x7fc00000u); }
    return rx_atan2_f32(a, sqrt((1.0f - a) * (1.0f + a)));
}

fn rx_acos_f32(a: f32) -> f32 {
    if !(abs(a) <= 1.0f) { return rx_bits(0x7fc00000u); }
    return rx_atan2_f32(sqrt((1.0f - a) * (1.0f + a)), a);
}

fn rx_asinh_f32(a: f32) -> f32 {
    let x = abs(a);
    if rx_is_nan(a) || x == rx_bits(0x7f800000u) || a == 0.0f { return a; }
    var value = rx_log_f32(x) + 0.69314718f;
    if x < 1e9f { value = rx_log1p_f32(x + x * x / (1.0f + sqrt(x * x + 1.0f))); }
    return select(value, -value, a < 0.0f);
}

fn rx_acosh_f32(a: f32) -> f32 {
    if !(a >= 1.0f) { return rx_bits(0x7fc00000u); }
    if a > 1e9f { return rx_log_f32(a) + 0.69314718f; }
    let t = a - 1.0f;
    return rx_log1p_f32(t + sqrt(2.0f * t + t * t));
}

fn rx_atanh_f32(a: f32) -> f32 {
    if a == 0.0f { return a; }
    return 0.5f * rx_log1p_f32(2.0f * a / (1.0f - a));
}

fn rx_erf_f32(a: f32) -> f32 {
    if rx_is_nan(a) { return a; }
    let x = abs(a);
    if x < 2.0f {
        let s = x * x;
        var term = x;
        var sum = x;
        for (var n = 1i; n < rx_few(24i); n++) {
            term = term * 2.0f * s / f32(2i * n + 1i);
            sum = sum + term;
        }
        let value = 1.12837917f * rx_exp_f32(-s) * sum;
        return select(value, -value, (bitcast<u32>(a) >> 31u) == 1u);
    }
    let value = 1.0f - rx_erfc_tail_f32(x);
    return select(value, -value, a < 0.0f);
}

fn rx_erfc_tail_f32(x: f32) -> f32 {
    if x > 10.1f { return 0.0f; }
    let s = 2.0f * x * x;
    var rest = 1.0f;
    for (var n = rx_few(30i); n >= 1i; n--) { rest = 1.0f + f32(n) / s / rest; }
    return rx_exp_f32(-x * x) / (x * 1.77245385f * rest);
}

fn rx_erfc_f32(a: f32) -> f32 {
    if a >= 2.0f { return rx_erfc_tail_f32(a); }
    return 1.0f - rx_erf_f32(a);
}

fn rx_pow_f32(a: f32, b: f32) -> f32 {
    if b == 0.0f || a == 1.0f { return 1.0f; }
    if rx_is_nan(a) || rx_is_nan(b) { return rx_bits(0x7fc00000u); }
    let size = abs(a);
    let whole = floor(b) == b;
    let odd = whole && abs(b) < 16777216.0f && (i32(b) & 1i) == 1i;
    var value = rx_exp_f32(b * rx_log_f32(size));
    if size == 1.0f { value = 1.0f; }
    if whole && abs(b) <= 32.0f {
        value = 1.0f;
        for (var n = 0i; n < i32(abs(b)); n++) { value = value * size; }
        if b < 0.0f { value = 1.0f / value; }
    }
    if (bitcast<u32>(a) >> 31u) == 0u { return value; }
    if !whole && a != 0.0f && size != rx_bits(0x7f800000u) { return rx_bits(0x7fc00000u); }
    return select(value, -value, odd);
}

fn rx_rsqrt_f32(a: f32) -> f32 {
    return 1.0f / sqrt(a);
}

fn rx_sqrt_f32(a: f32) -> f32 {
    return sqrt(a);
}

fn rx_abs_f32(a: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(a) & 0x7fffffffu);
}

fn rx_floor_f32(a: f32) -> f32 {
    return floor(a);
}

fn rx_ceil_f32(a: f32) -> f32 {
    return ceil(a);
}

fn rx_round_f32(a: f32) -> f32 {
    return round(a);
}

fn rx_trunc_f32(a: f32) -> f32 {
    return trunc(a);
}

fn rx_fma_f32(a: f32, b: f32, c: f32) -> f32 {
    return fma(a, b, c);
}
