fn rx_few(count: i32) -> i32 {
    return count + given.end;
}

fn rx_d(a: f32) -> f64 {
    return f64(rx_keep(a));
}

fn rx_keep_f64(a: f64) -> f64 {
    return select(a, rx_d(1.0f), given.end != 0i);
}

fn rx_is_nan_f64(a: f64) -> bool {
    return rx_is_nan(f32(a));
}

fn rx_is_minus_f64(a: f64) -> bool {
    return (bitcast<u32>(f32(a)) >> 31u) == 1u;
}

fn rx_inf_f64() -> f64 {
    return f64(rx_bits(0x7f800000u));
}

fn rx_nan_f64() -> f64 {
    return f64(rx_bits(0x7fc00000u));
}

fn rx_odd_f32(a: f64) -> f32 {
    let nearest = f32(a);
    if f64(nearest) == a || rx_is_nan(nearest) { return nearest; }
    var bits = bitcast<u32>(nearest);
    if abs(f64(nearest)) > abs(a) { bits -= 1u; }
    return bitcast<f32>(bits | 1u);
}

fn rx_f64_of_u64(a: vec2<u32>) -> f64 {
    return f64(a.y) * 4294967296.0lf + f64(a.x);
}

fn rx_f64_of_i64(a: vec2<u32>) -> f64 {
    return f64(i32(a.y)) * 4294967296.0lf + f64(a.x);
}

fn rx_u64_of_f64(a: f64) -> vec2<u32> {
    if rx_is_nan_f64(a) || a <= 0.0lf { return vec2<u32>(0u, 0u); }
    if a >= 18446744073709551616.0lf { return vec2<u32>(0xffffffffu, 0xffffffffu); }
    let high = floor(a * 2.3283064365386962890625e-10lf);
    return vec2<u32>(u32(a - high * 4294967296.0lf), u32(high));
}

fn rx_i64_of_f64(a: f64) -> vec2<u32> {
    if a >= 9223372036854775808.0lf { return vec2<u32>(0xffffffffu, 0x7fffffffu); }
    if a <= -9223372036854775808.0lf { return vec2<u32>(0u, 0x80000000u); }
    if a < 0.0lf { return rx_neg_64(rx_u64_of_f64(-a)); }
    return rx_u64_of_f64(a);
}

fn rx_i32_of_f64(a: f64, low: i32, high: i32) -> i32 {
    if rx_is_nan_f64(a) { return 0i; }
    if a >= 2147483648.0lf { return high; }
    if a <= -2147483649.0lf { return low; }
    return clamp(i32(a), low, high);
}

fn rx_u32_of_f64(a: f64, high: u32) -> u32 {
    if rx_is_nan_f64(a) || a <= 0.0lf { return 0u; }
    if a >= 4294967296.0lf { return high; }
    return min(u32(a), high);
}

fn rx_max_f64(a: f64, b: f64) -> f64 {
    if rx_truth(a >= b) || rx_is_nan_f64(a) { return a; }
    return b;
}

fn rx_min_f64(a: f64, b: f64) -> f64 {
    if rx_truth(a <= b) || rx_is_nan_f64(a) { return a; }
    return b;
}

fn rx_fmod_f64(a: f64, b: f64) -> f64 {
    if rx_is_nan_f64(a) || rx_is_nan_f64(b) || b == 0.0lf || abs(a) == rx_inf_f64() { return rx_nan_f64(); }
    if abs(b) == rx_inf_f64() { return a; }
    let size = abs(b);
    var rest = abs(a);
    for (var round = 0i; round < 2100i && rest >= size; round++) {
        var step = size;
        for (var up = 0i; up < 2100i && step * 2.0lf <= rest; up++) { step = step * 2.0lf; }
        rest = rest - step;
    }
    if a < 0.0lf { return -rest; }
    return rest;
}

fn rx_signed_f64(size: f64, minus: bool) -> f64 {
    if minus && size == 0.0lf { return f64(rx_bits(0x80000000u)); }
    if minus { return -size; }
    return size;
}

fn rx_neg_f64(a: f64) -> f64 {
    if rx_truth(a == 0.0lf) { return f64(rx_neg_f32(f32(a))); }
    return -a;
}

fn rx_floormod_f64(a: f64, b: f64) -> f64 {
    let rest = rx_fmod_f64(a, b);
    if rest == 0.0lf { return rx_signed_f64(rx_d(0.0f), rx_is_minus_f64(b)); }
    if (rest < 0.0lf) != (b < 0.0lf) { return rest + b; }
    return rest;
}

fn rx_floordiv_f64(a: f64, b: f64) -> f64 {
    if b == 0.0lf { return a / b; }
    let rest = rx_fmod_f64(a, b);
    var quotient = (a - rest) / b;
    if rest != 0.0lf && (rest < 0.0lf) != (b < 0.0lf) { quotient = quotient - 1.0lf; }
    if quotient == 0.0lf {
        return rx_signed_f64(rx_d(0.0f), rx_is_minus_f64(a) != rx_is_minus_f64(b));
    }
    let whole = floor(quotient);
    if quotient - whole > 0.5lf { return whole + 1.0lf; }
    return whole;
}

fn rx_power_f64(k: i32) -> f64 {
    var value = 1.0lf;
    var step = 2.0lf;
    if k < 0i { step = 0.5lf; }
    for (var rest = abs(k); rest > 0i; rest = rest / 2i) {
        if (rest & 1i) == 1i { value = value * step; }
        step = step * step;
    }
    return value;
}

fn rx_scaled_f64(a: f64, k: i32) -> f64 {
    let half = k / 2i;
    return a * rx_power_f64(half) * rx_power_f64(k - half);
}

fn rx_exp_f64(a: f64) -> f64 {
    if rx_is_nan_f64(a) { return a; }
    if a > 709.79lf { return rx_inf_f64(); }
    if a < -745.14lf { return rx_d(0.0f); }
    let k = rx_round_f64(a * 1.4426950408889634lf);
    let r = (a - k * 0.6931471803691238lf) - k * 1.9082149292705877e-10lf;
    var sum = 1.0lf;
    for (var n = rx_few(15i); n >= 1i; n--) { sum = 1.0lf + sum * r / f64(n); }
    return rx_scaled_f64(sum, i32(k));
}

fn rx_round_f64(a: f64) -> f64 {
    if !(abs(a) < 4503599627370496.0lf) { return a; }
    let whole = floor(a);
    let part = a - whole;
    var value = whole;
    if part > 0.5lf || (part == 0.5lf && floor(whole * 0.5lf) * 2.0lf != whole) { value = whole + 1.0lf; }
    if value == 0.0lf { return rx_signed_f64(rx_d(0.0f), rx_is_minus_f64(a)); }
    return value;
}

fn rx_expm1_f64(a: f64) -> f64 {
    if abs(a) > 0.5lf || rx_is_nan_f64(a) { return rx_exp_f64(a) - 1.0lf; }
    var sum = 1.0lf;
    for (var n = rx_few(18i); n >= 2i; n--) { sum = 1.0lf + sum * a / f64(n); }
    return a * sum;
}

fn rx_log_f64(a: f64) -> f64 {
    if rx_is_nan_f64(a) || a < 0.0lf { return rx_nan_f64(); }
    if a == 0.0lf { return -rx_inf_f64(); }
    if a == rx_inf_f64() { return a; }
    var x = a;
    var k = 0i;
    for (var n = 0i; n < rx_few(12i) && x > 1.2676506002282294e30lf; n++) { x = x * rx_power_f64(-100i); k += 100i; }
    for (var n = 0i; n < rx_few(12i) && x < 7.888609052210118e-31lf; n++) { x = x * rx_power_f64(100i); k -= 100i; }
    let e = i32(bitcast<u32>(f32(x)) >> 23u) - 127i;
    var m = x * rx_power_f64(-e);
    k += e;
    if m > 1.4142135623730951lf { m = m * 0.5lf; k += 1i; }
    let f = (m - 1.0lf) / (m + 1.0lf);
    let s = f * f;
    var sum = 0.0lf;
    for (var n = rx_few(25i); n >= 3i; n -= 2i) { sum = s * (sum + 1.0lf / f64(n)); }
    return f64(k) * 0.6931471803691238lf + (2.0lf * f + (2.0lf * f * sum + f64(k) * 1.9082149292705877e-10lf));
}

fn rx_log1p_f64(a: f64) -> f64 {
    let u = 1.0lf + a;
    if u == 1.0lf || a == rx_inf_f64() { return a; }
    if !(u > 0.0lf) { return rx_log_f64(u); }
    return rx_log_f64(u) * (a / (u - 1.0lf));
}

fn rx_sigmoid_f64(a: f64) -> f64 {
    if a >= 0.0lf { return 1.0lf / (1.0lf + rx_exp_f64(-a)); }
    let e = rx_exp_f64(a);
    return e / (1.0lf + e);
}

fn rx_tanh_f64(a: f64) -> f64 {
    let x = abs(a);
    if rx_is_nan_f64(a) || x < 1e-9lf { return a; }
    var value = 1.0lf;
    if x < 22.0lf {
        let e = rx_expm1_f64(2.0lf * x);
        value = e / (e + 2.0lf);
    }
    return rx_signed_f64(value, a < 0.0lf);
}

fn rx_sinh_f64(a: f64) -> f64 {
    let x = abs(a);
    if rx_is_nan_f64(a) || x < 1e-9lf { return a; }
    let h = rx_exp_f64(x * 0.5lf);
    var value = 0.5lf * h * h;
    if x < 30.0lf {
        let e = rx_expm1_f64(x);
        value = 0.5lf * (e + e / (e + 1.0lf));
    }
    return rx_signed_f64(value, a < 0.0lf);
}

fn rx_cosh_f64(a: f64) -> f64 {
    let x = abs(a);
    if x > 700.0lf {
        let h = rx_exp_f64(x * 0.5lf);
        return 0.5lf * h * h;
    }
    let e = rx_exp_f64(x);
    return 0.5lf * e + 0.5lf / e;
}

fn rx_quarter_f64(a: f64, turn: i32) -> f64 {
    if !(abs(a) < rx_inf_f64()) { return rx_nan_f64(); }
    if abs(a) > 1048576.0lf { rx_stop(1u); }
    let k = rx_round_f64(a * 0.6366197723675814lf);
    let r = ((a - k * 1.5707963267341256lf) - k * 6.077100506303966e-11lf) - k * 2.0222662487959506e-21lf;
    let part = k - 4.0lf * floor(k * 0.25lf);
    let quarter = i32(part) + turn;
    let s = r * r;
    let odd = (quarter & 1i) == 1i;
    var sum = 1.0lf;
    for (var n = rx_few(11i); n >= 1i; n--) {
        let m = select(2i * n + 1i, 2i * n, odd);
        sum = 1.0lf - sum * s / f64(m * (m - 1i));
    }
    if !odd { sum = sum * r; }
    return rx_signed_f64(sum, (quarter & 2i) == 2i);
}

fn rx_sin_f64(a: f64) -> f64 {
    if a == 0.0lf { return a; }
    return rx_quarter_f64(a, 0i);
}

fn rx_cos_f64(a: f64) -> f64 {
    return rx_quarter_f64(a, 1i);
}

fn rx_tan_f64(a: f64) -> f64 {
    if a == 0.0lf { return a; }
    return rx_quarter_f64(a, 0i) / rx_quarter_f64(a, 1i);
}

fn rx_atan_f64(a: f64) -> f64 {
    if rx_is_nan_f64(a) || a == 0.0lf { return a; }
    var x = abs(a);
    var base = 0.0lf;
    if x > 2.414213562373095lf { x = -1.0lf / x; base = 1.5707963267948966lf; }
    else if x > 0.41421356237309503lf { x = (x - 1.0lf) / (x + 1.0lf); base = 0.7853981633974483lf; }
    let s = x * x;
    var sum = 0.0lf;
    for (var n = rx_few(24i); n >= 1i; n--) {
        var term = 1.0lf / f64(2i * n + 1i);
        if (n & 1i) == 1i { term = -term; }
        sum = s * (term + sum);
    }
    return rx_signed_f64(base + (x + x * sum), a < 0.0lf);
}

fn rx_atan2_f64(y: f64, x: f64) -> f64 {
    if rx_is_nan_f64(x) || rx_is_nan_f64(y) { return rx_nan_f64(); }
    let far = rx_inf_f64();
    var turn = 0.0lf;
    if y == 0.0lf { turn = 0.0lf; }
    else if abs(y) == far && abs(x) == far { turn = 0.7853981633974483lf; }
    else if abs(x) == far { turn = 0.0lf; }
    else if x == 0.0lf || abs(y) == far { turn = 1.5707963267948966lf; }
    else { turn = rx_atan_f64(abs(y) / abs(x)); }
    if rx_is_minus_f64(x) { turn = 3.141592653589793lf - turn; }
    return rx_signed_f64(turn, rx_is_minus_f64(y));
}

fn rx_asin_f64(a: f64) -> f64 {
    if !(abs(a) <= 1.0lf) { return rx_nan_f64(); }
    return rx_atan2_f64(a, sqrt((1.0lf - a) * (1.0lf + a)));
}

fn rx_acos_f64(a: f64) -> f64 {
    if !(abs(a) <= 1.0lf) { return rx_nan_f64(); }
    return rx_atan2_f64(sqrt((1.0lf - a) * (1.0lf + a)), a);
}

fn rx_asinh_f64(a: f64) -> f64 {
    let x = abs(a);
    if rx_is_nan_f64(a) || x == rx_inf_f64() || a == 0.0lf { return a; }
    var value = 0.0lf;
    if x < 1e9lf { value = rx_log1p_f64(x + x * x / (1.0lf + sqrt(x * x + 1.0lf))); }
    else { value = rx_log_f64(x) + 0.6931471805599453lf; }
    return rx_signed_f64(value, a < 0.0lf);
}

fn rx_acosh_f64(a: f64) -> f64 {
    if !(a >= 1.0lf) { return rx_nan_f64(); }
    if a > 1e9lf { return rx_log_f64(a) + 0.6931471805599453lf; }
    let t = a - 1.0lf;
    return rx_log1p_f64(t + sqrt(2.0lf * t + t * t));
}

fn rx_atanh_f64(a: f64) -> f64 {
    if a == 0.0lf { return a; }
    let x = abs(a);
    return rx_signed_f64(0.5lf * rx_log1p_f64(2.0lf * x / (1.0lf - x)), a < 0.0lf);
}

fn rx_erf_small_f64(x: f64) -> f64 {
    let s = x * x;
    var term = x;
    var sum = x;
    for (var n = 1i; n < rx_few(60i); n++) {
        term = term * 2.0lf * s / f64(2i * n + 1i);
        sum = sum + term;
    }
    return 1.1283791670955126lf * rx_exp_f64(-s) * sum;
}

fn rx_erfc_tail_f64(x: f64) -> f64 {
    if x > 27.3lf { return rx_d(0.0f); }
    let s = 2.0lf * x * x;
    var rest = 1.0lf;
    for (var n = rx_few(70i); n >= 1i; n--) { rest = 1.0lf + f64(n) / s / rest; }
    return rx_exp_f64(-x * x) / (x * 1.772453850905516lf * rest);
}

fn rx_erf_f64(a: f64) -> f64 {
    if rx_is_nan_f64(a) || a == 0.0lf { return a; }
    let x = abs(a);
    var value = 0.0lf;
    if x < 2.5lf { value = rx_erf_small_f64(x); } else { value = 1.0lf - rx_erfc_tail_f64(x); }
    return rx_signed_f64(value, a < 0.0lf);
}

fn rx_erfc_f64(a: f64) -> f64 {
    if a >= 2.0lf { return rx_erfc_tail_f64(a); }
    return 1.0lf - rx_erf_f64(a);
}

fn rx_pow_f64(a: f64, b: f64) -> f64 {
    if b == 0.0lf || a == 1.0lf { return 1.0lf; }
    if rx_is_nan_f64(a) || rx_is_nan_f64(b) { return rx_nan_f64(); }
    let size = abs(a);
    let whole = floor(b) == b;
    let odd = whole && abs(b) < 9007199254740992.0lf && floor(b * 0.5lf) * 2.0lf != b;
    var value = 1.0lf;
    if whole && abs(b) <= 32.0lf {
        for (var n = 0i; n < i32(abs(b)); n++) { value = value * size; }
        if b < 0.0lf { value = 1.0lf / value; }
    } else if b == 0.5lf {
        value = sqrt(size);
    } else if size != 1.0lf {
        value = rx_exp_f64(b * rx_log_f64(size));
    }
    if !rx_is_minus_f64(a) { return value; }
    if !whole && a != 0.0lf && size != rx_inf_f64() { return rx_nan_f64(); }
    return rx_signed_f64(value, odd);
}

fn rx_rsqrt_f64(a: f64) -> f64 {
    return 1.0lf / rx_sqrt_f64(a);
}

fn rx_sqrt_f64(a: f64) -> f64 {
    if a < 0.0lf { return rx_nan_f64(); }
    return sqrt(a);
}

fn rx_abs_f64(a: f64) -> f64 {
    return abs(a);
}

fn rx_floor_f64(a: f64) -> f64 {
    return floor(a);
}

fn rx_ceil_f64(a: f64) -> f64 {
    return ceil(a);
}

fn rx_trunc_f64(a: f64) -> f64 {
    // Where a driver has no instruction for it, `trunc` of f64 is 0.0 for -0.5: the sign is put back.
    return rx_signed_f64(floor(abs(a)), rx_is_minus_f64(a));
}

fn rx_fma_f64(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    if !(abs(a) < 1e150lf && abs(b) < 1e150lf && abs(sum) < rx_inf_f64()) { return fma(a, b, c); }
    let wide_a = a * 134217729.0lf;
    let wide_b = b * 134217729.0lf;
    let high_a = wide_a - (wide_a - a);
    let high_b = wide_b - (wide_b - b);
    let low_a = a - high_a;
    let low_b = b - high_b;
    let lost = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b;
    let back = sum - product;
    let error = (product - (sum - back)) + (c - back);
    let rest = error + lost;
    if rx_truth(rest == 0.0lf) { return sum; }
    return sum + rest;
}

fn rx_fma_of_narrow(a: f64, b: f64, c: f64) -> f64 {
    let product = a * b;
    let sum = product + c;
    if !(abs(sum) < rx_inf_f64()) { return sum; }
    let back = sum - product;
    let error = (product - (sum - back)) + (c - back);
    let near = f64(f32(sum));
    let rest = sum - near;
    let other = near + 2.0lf * rest;
    if error == 0.0lf || rest == 0.0lf || f64(f32(other)) != other { return sum; }
    if (error > 0.0lf) == (rest > 0.0lf) { return other; }
    return near;
}
