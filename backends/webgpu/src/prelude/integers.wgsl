fn rx_stop(site: u32) {
    atomicMax(&status[0], site);
}

fn rx_look_for_cut_loops() {
    if !rx_counts_loops { return; }
    var turns = 0i;
    while turns < rx_few(3i) { turns++; }
    if turns < 3i { atomicMax(&status[0], 1u); }
}

fn rx_floordiv_i32(a: i32, b: i32) -> i32 {
    let q = a / b;
    return select(q, q - 1i, (a % b != 0i) && ((a < 0i) != (b < 0i)));
}

fn rx_floormod_i32(a: i32, b: i32) -> i32 {
    let r = a % b;
    return select(r, r + b, (r != 0i) && ((r < 0i) != (b < 0i)));
}

fn rx_wide_i32(a: i32) -> vec2<u32> {
    return vec2<u32>(u32(a), select(0u, 0xffffffffu, a < 0i));
}

fn rx_index_i64(a: vec2<u32>) -> i32 {
    let low = i32(a.x);
    let fits = a.y == select(0u, 0xffffffffu, low < 0i);
    return select(select(2147483647i, -2147483647i, i32(a.y) < 0i), low, fits);
}

fn rx_index_u64(a: vec2<u32>) -> i32 {
    return select(2147483647i, i32(a.x), a.y == 0u && a.x < 0x80000000u);
}

fn rx_index_u32(a: u32) -> i32 {
    return select(2147483647i, i32(a), a < 0x80000000u);
}

fn rx_add_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn rx_neg_64(a: vec2<u32>) -> vec2<u32> {
    return rx_add_64(~a, vec2<u32>(1u, 0u));
}

fn rx_sub_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn rx_mul_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let a0 = a.x & 0xffffu;
    let a1 = a.x >> 16u;
    let b0 = b.x & 0xffffu;
    let b1 = b.x >> 16u;
    let middle = a1 * b0 + ((a0 * b0) >> 16u);
    let other = a0 * b1 + (middle & 0xffffu);
    let high = a1 * b1 + (middle >> 16u) + (other >> 16u);
    return vec2<u32>(a.x * b.x, high + a.x * b.y + a.y * b.x);
}

fn rx_less_u64(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

fn rx_less_i64(a: vec2<u32>, b: vec2<u32>) -> bool {
    return i32(a.y) < i32(b.y) || (a.y == b.y && a.x < b.x);
}

fn rx_equal_64(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x == b.x && a.y == b.y;
}

fn rx_shl_64(a: vec2<u32>, count: u32) -> vec2<u32> {
    if count == 0u { return a; }
    if count >= 32u { return vec2<u32>(0u, a.x << (count - 32u)); }
    return vec2<u32>(a.x << count, (a.y << count) | (a.x >> (32u - count)));
}

fn rx_shr_u64(a: vec2<u32>, count: u32) -> vec2<u32> {
    if count == 0u { return a; }
    if count >= 32u { return vec2<u32>(a.y >> (count - 32u), 0u); }
    return vec2<u32>((a.x >> count) | (a.y << (32u - count)), a.y >> count);
}

fn rx_shr_i64(a: vec2<u32>, count: u32) -> vec2<u32> {
    let sign = i32(a.y) >> 31u;
    if count == 0u { return a; }
    if count >= 32u { return vec2<u32>(u32(i32(a.y) >> (count - 32u)), u32(sign)); }
    return vec2<u32>((a.x >> count) | (a.y << (32u - count)), u32(i32(a.y) >> count));
}

fn rx_abs_i64(a: vec2<u32>) -> vec2<u32> {
    if i32(a.y) < 0i { return rx_neg_64(a); }
    return a;
}

fn rx_divmod_u64(a: vec2<u32>, b: vec2<u32>) -> vec4<u32> {
    var quotient = vec2<u32>(0u, 0u);
    var rest = vec2<u32>(0u, 0u);
    for (var bit = 63i; bit >= 0i; bit--) {
        let over = rest.y >> 31u;
        rest = rx_shl_64(rest, 1u);
        rest.x |= rx_shr_u64(a, u32(bit)).x & 1u;
        if over != 0u || !rx_less_u64(rest, b) {
            rest = rx_sub_64(rest, b);
            quotient |= rx_shl_64(vec2<u32>(1u, 0u), u32(bit));
        }
    }
    return vec4<u32>(quotient, rest);
}

fn rx_floordiv_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return rx_divmod_u64(a, b).xy;
}

fn rx_floormod_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return rx_divmod_u64(a, b).zw;
}

fn rx_floordiv_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let both = rx_divmod_u64(rx_abs_i64(a), rx_abs_i64(b));
    if (i32(a.y) < 0i) == (i32(b.y) < 0i) { return both.xy; }
    let quotient = rx_neg_64(both.xy);
    if both.z == 0u && both.w == 0u { return quotient; }
    return rx_sub_64(quotient, vec2<u32>(1u, 0u));
}

fn rx_floormod_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let rest = rx_divmod_u64(rx_abs_i64(a), rx_abs_i64(b)).zw;
    if rest.x == 0u && rest.y == 0u { return rest; }
    var result = rest;
    if i32(a.y) < 0i { result = rx_neg_64(rest); }
    if (i32(a.y) < 0i) != (i32(b.y) < 0i) { result = rx_add_64(result, b); }
    return result;
}

fn rx_least_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if rx_less_i64(b, a) { return b; }
    return a;
}

fn rx_most_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if rx_less_i64(a, b) { return b; }
    return a;
}

fn rx_least_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if rx_less_u64(b, a) { return b; }
    return a;
}

fn rx_most_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if rx_less_u64(a, b) { return b; }
    return a;
}
