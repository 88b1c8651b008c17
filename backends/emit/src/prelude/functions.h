/* Our own functions, without branches, so that loops over them become vectors. Coefficients are those of
   scripts/functions/coefficients.py. Computed in double: exp is right within 1 unit in the last place
   of f64, erf within 3, erfc within 5; all of them, rounded once, within 1 of f32. */
#if defined __FMA__ || defined __ARM_FEATURE_FMA
#define RX_MADD(a, b, c) __builtin_fma(a, b, c)
#else
#define RX_MADD(a, b, c) ((a) * (b) + (c))
#endif

static const double rx_exp_terms[13] = {
    2.09215799649503e-09, 2.5114869528657765e-08, 2.7557251904174915e-07,
    2.7557224958392624e-06, 2.4801587350110797e-05, 0.000198412699092171,
    0.001388888888887189, 0.008333333333309528, 0.04166666666666669,
    0.16666666666666702, 0.5, 1.0,
    1.0,
};

static const double rx_exp_f32_terms[8] = {
    0.00019907569310848288, 0.0013948578326459795, 0.008333283538708528,
    0.041666218319291945, 0.16666666786308587, 0.5000000107729166,
    0.999999999995509, 0.9999999999595618,
};

static const double rx_erfc_terms[24] = {
    1.263782858042137e-09, 1.868487385473519e-09, -1.4091982822555755e-08,
    -1.799947545903142e-08, 1.1005996198640057e-07, 7.471952780500971e-08,
    -8.254699744871162e-07, 2.9377854943443786e-07, 5.709784760966506e-06,
    -1.1222046316669005e-05, -2.439924428312988e-05, 0.00015062169704678355,
    -0.00019925668432389153, -0.0007577732973669146, 0.005031969975753176,
    -0.01619773405599449, 0.03716751553777026, -0.0663303658124095,
    0.09373283499833023, -0.10103906603629459, 0.06809705425469323,
    0.015379652102619558, -0.13962111684056253, 1.2329951186255526,
};

static const double rx_erf_terms[9] = {
    1.4725865480556744e-06, -1.4845849259707869e-05, 0.00012053335124353741,
    -0.0008548297753674966, 0.00522397737302147, -0.026866170632887928,
    0.11283791670925353, -0.37612638903183476, 1.1283791670955126,
};

static inline __attribute__((always_inline)) double rx_polynomial(const double *terms, int count, double x) {
    double sum = terms[0];
    RX_UNROLL(24)
    for (int i = 1; i < count; i++) sum = RX_MADD(sum, x, terms[i]);
    return sum;
}

/* The nearest integer of a number below 2^51, and 2 to the power of one. */
static inline double rx_nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }
static inline double rx_power(double n) { return rx_f64_of_bits(rx_bits_of_f64(n + (0x1.8p52 + 1023)) << 52); }

/* What is left of x after n logarithms of 2. */
static inline double rx_reduced(double x, double n) {
    double rest = RX_MADD(n, -0x1.62e42fefa38p-1, x);
    return RX_MADD(n, -0x1.ef35793c7673p-45, rest);
}

/* Below, x is limited where both factors are 0: a product that underflows, which every masked score of attention is,
   costs some processors a hundred cycles. */
static inline double rx_exp_f64(double x) {
    double in = x > 710.0 ? 710.0 : x;
    in = in < -1418.3 ? -1418.3 : in;
    double n = rx_nearest(in * 0x1.71547652b82fep0), half = rx_nearest(n * 0.5);
    return rx_polynomial(rx_exp_terms, 13, rx_reduced(in, n)) * rx_power(half) * rx_power(n - half);
}

/* exp of what is an f32 or about one, right to 2^-33. */
static inline double rx_exp_about(double x) {
    double in = x > 300.0 ? 300.0 : x;
    in = in < -709.1 ? -709.1 : in;
    double n = rx_nearest(in * 0x1.71547652b82fep0);
    return rx_polynomial(rx_exp_f32_terms, 8, rx_reduced(in, n)) * rx_power(n);
}
static inline float rx_exp_f32(float x) { return (float)rx_exp_about((double)x); }

/* erfc(y) for y >= 0: exp(-y^2) times what changes slowly, y^2 in two parts. */
static inline double rx_erfc_tail(double x) {
    double y = x > 28.0 ? 28.0 : x;
    double high = rx_f64_of_bits(rx_bits_of_f64(y) & ~UINT64_C(0x7ffffff)), low = (y - high) * (y + high);
    double rest = 1.0 - low * (1.0 - low * (0.5 - low * (1.0 / 6.0)));
    double slow = rx_polynomial(rx_erfc_terms, 24, (y - 4.0) / (y + 4.0)) / (1.0 + 2.0 * y);
    return slow * rest * rx_exp_f64(-high * high);
}
static inline double rx_erfc_f64(double x) {
    double tail = rx_erfc_tail(fabs(x));
    return x < 0 ? 2.0 - tail : tail;
}
static inline float rx_erfc_f32(float x) { return (float)rx_erfc_f64((double)x); }

static inline double rx_erf_f64(double x) {
    double y = fabs(x), near = x * rx_polynomial(rx_erf_terms, 9, x * x);
    double far = copysign(1.0 - rx_erfc_tail(y), x);
    return y < 0.5 ? near : far;
}
static inline float rx_erf_f32(float x) { return (float)rx_erf_f64((double)x); }

static inline double rx_sigmoid_f64(double x) {
    double small = rx_exp_f64(-fabs(x));
    return (x >= 0 ? 1.0 : small) / (1.0 + small);
}
static inline float rx_sigmoid_f32(float x) { return (float)(1.0 / (1.0 + rx_exp_about(-(double)x))); }

static inline float rx_tanh_f32(float x) {
    double in = (double)x, near = in * (1.0 - in * in * (1.0 / 3.0));
    double far = 1.0 - 2.0 / (1.0 + rx_exp_about(2.0 * in));
    return (float)(fabs(in) < 0x1p-7 ? near : far);
}

/* The same where the result is rounded to f32 at once, right to 2^-30: shorter polynomials, one division. */
static const double rx_erfc_f32_terms[13] = {
    8.988720457554115e-05, -0.00033916778843843734, -0.0008071551753261303,
    0.00509394220809932, -0.016156469703912713, 0.03715919524373238,
    -0.06633988384131533, 0.09373301427143942, -0.10103817757095751,
    0.06809707505355217, 0.015379622201310499, -0.13962111731636637,
    1.2329951187910768,
};

static const double rx_erf_f32_terms[6] = {
    -0.0007694534279142308, 0.005200413724335493, -0.026863143032249386,
    0.11283774013179539, -0.37612638525650693, 1.1283791670824095,
};

static const double rx_tanh_f32_terms[7] = {
    0.002552015379876175, -0.00852987330284387, 0.021814548391574526, -0.05396353519426731,
    0.13333313877764275, -0.33333333030942663, 0.9999999999922939,
};

static const double rx_log_f32_terms[5] = {
    0.23616359099145984, 0.2853505103781631, 0.4000038467237519, 0.6666666524748752, 2.0000000000083595,
};

/* erfc(y) for y >= 0; beyond 11 it is less than any f32, and 0, since an infinity may be multiplied by it: gelu(-inf) is
   NaN in every numerics, and gelu of a large negative f32 is -0. */
static inline double rx_erfc_tail_about(double x) {
    double y = x > 11.0 ? 11.0 : x, scale = x > 11.0 ? 0.0 : 1.0;
    double low = y + 4.0, wide = 1.0 + 2.0 * y, inverse = 1.0 / (low * wide);
    double slow = rx_polynomial(rx_erfc_f32_terms, 13, (y - 4.0) * wide * inverse);
    return scale * (slow * (low * inverse) * rx_exp_about(-y * y));
}
static inline double rx_erfc_about(double x) {
    double tail = rx_erfc_tail_about(fabs(x));
    return x < 0 ? 2.0 - tail : tail;
}
static inline double rx_erf_about(double x) {
    double y = fabs(x), near = x * rx_polynomial(rx_erf_f32_terms, 6, x * x);
    double far = copysign(1.0 - rx_erfc_tail_about(y), x);
    return y < 0.5 ? near : far;
}
static inline double rx_sigmoid_about(double x) { return 1.0 / (1.0 + rx_exp_about(-x)); }
static inline double rx_tanh_about(double x) {
    double near = x * rx_polynomial(rx_tanh_f32_terms, 7, x * x);
    double far = 1.0 - 2.0 / (1.0 + rx_exp_about(2.0 * x));
    return fabs(x) < 0.5 ? near : far;
}
/* x is an f32 or about one: no subnormal of f64. */
static inline double rx_log_about(double x) {
    uint64_t bits = rx_bits_of_f64(x), up = bits + (UINT64_C(0x3ff0000000000000) - UINT64_C(0x3fe6a09e667f3bcd));
    double power = rx_f64_of_bits((up >> 52) | UINT64_C(0x4330000000000000)) - (0x1p52 + 1023.0);
    double m = rx_f64_of_bits((up & UINT64_C(0xfffffffffffff)) + UINT64_C(0x3fe6a09e667f3bcd));
    double s = (m - 1.0) / (m + 1.0);
    double value = RX_MADD(power, 0x1.62e42fefa39efp-1, s * rx_polynomial(rx_log_f32_terms, 5, s * s));
    value = x == INFINITY ? x : value;
    value = x == 0.0 ? -INFINITY : value;
    return x >= 0.0 ? value : NAN;
}

/* The same in f32 alone, right within 2 units in the last place (2.2 where multiplication and addition round
   twice); exp within 1 (1.2). */
#if defined __FMA__ || defined __ARM_FEATURE_FMA
#define RX_MADD_F32(a, b, c) __builtin_fmaf(a, b, c)
#else
#define RX_MADD_F32(a, b, c) ((a) * (b) + (c))
#endif

/* As few operations on a vector as it takes: one that limits x below, where both factors are 0, one that limits it above, where
   their product is infinity; the power of 2 as two of half the size, whose bits are those of the rounded quotient, so that
   subnormal numbers are right. */
static inline float rx_quick_exp(float x) {
    float in = x < -176.0f ? -176.0f : x;
    in = in > 100.0f ? 100.0f : in;
    float n = RX_MADD_F32(in, 0x1.715476p0f, 0x1.8p23f + 254), whole = n - (0x1.8p23f + 254);
    uint32_t bits = rx_bits_of_f32(n), half = bits >> 1;
    float rest = RX_MADD_F32(whole, -0x1.62ep-1f, in);
    rest = RX_MADD_F32(whole, -0x1.0bfbe8p-15f, rest);
    float sum = 0x1.6850e4p-10f;
    sum = RX_MADD_F32(sum, rest, 0x1.123bccp-7f);
    sum = RX_MADD_F32(sum, rest, 0x1.555b98p-5f);
    sum = RX_MADD_F32(sum, rest, 0x1.55548ep-3f);
    sum = RX_MADD_F32(sum, rest, 0x1.fffff8p-2f);
    sum = RX_MADD_F32(sum, rest, 1.0f);
    sum = RX_MADD_F32(sum, rest, 1.0f);
    return sum * rx_f32_of_bits(half << 23) * rx_f32_of_bits((bits - half) << 23);
}

static inline float rx_quick_sigmoid(float x) {
    float small = rx_quick_exp(-fabsf(x)), sum = 1.0f + small, lost = small - (sum - 1.0f);
    float over = x >= 0 ? 1.0f : small, inverse = 1.0f / sum, value = over * inverse;
    /* What is left of the division, and of the sum. */
    float rest = RX_MADD_F32(-value, sum, over) - value * lost;
    return RX_MADD_F32(rest, inverse, value);
}

#if defined __FMA__ || defined __ARM_FEATURE_FMA
/* t / (t + 1), where t = (exp(2 y) - 1) / 2 is formed without the 1 that small numbers would be lost beside; then what is left of
   the division, and of the sum. Two products and a sum of one rounding each are needed for the bound. */
static inline float rx_quick_tanh(float x) {
    float y = fabsf(x), in = y > 9.1f ? 9.1f : y;
    float n = RX_MADD_F32(in, 0x1.715476p1f, 0x1.8p23f + 127), whole = n - (0x1.8p23f + 127);
    float power = rx_f32_of_bits(rx_bits_of_f32(n) << 23);
    float rest = RX_MADD_F32(whole, -0x1.62ep-2f, in);
    rest = RX_MADD_F32(whole, -0x1.0bfbe8p-16f, rest);
    float terms = 0x1.6d11fep-5f;
    terms = RX_MADD_F32(terms, rest, 0x1.120c62p-3f);
    terms = RX_MADD_F32(terms, rest, 0x1.555518p-2f);
    terms = RX_MADD_F32(terms, rest, 0x1.5554dcp-1f);
    terms = RX_MADD_F32(terms, rest, 1.0f);
    float near = RX_MADD_F32(rest * rest, terms, rest), t = RX_MADD_F32(power, near, RX_MADD_F32(power, 0.5f, -0.5f));
    float sum = t + 1.0f, lost = t - (sum - 1.0f), inverse = 1.0f / sum, value = t * inverse;
    float left = RX_MADD_F32(-value, sum, t) - value * lost;
    return copysignf(RX_MADD_F32(left, inverse, value), x);
}
#else
static inline float rx_quick_tanh(float x) {
    float y = fabsf(x), square = y * y, sum = 0x1.f4908ap-10f;
    sum = RX_MADD_F32(sum, square, -0x1.03f99ap-7f);
    sum = RX_MADD_F32(sum, square, 0x1.622538p-6f);
    sum = RX_MADD_F32(sum, square, -0x1.b9d7aep-5f);
    sum = RX_MADD_F32(sum, square, 0x1.111042p-3f);
    sum = RX_MADD_F32(sum, square, -0x1.555554p-2f);
    float near = RX_MADD_F32(sum, y * square, y), far = 1.0f - 2.0f / (1.0f + rx_quick_exp(2.0f * y));
    return copysignf(y < 0.75f ? near : far, x);
}
#endif

/* What many values are divided by, as two factors: a product with its inverse is right within 1.5 units in the last
   place where that is as precise as it is, and beyond it is taken times a power of 2 that makes it so. No branch: a loop
   with one that is as long as an exponential is no vector. */
typedef struct rx_divisor {
    float inverse, scale;
} rx_divisor;
static inline rx_divisor rx_by(float by) {
    const float size = fabsf(by), scale = size < 0x1p-126f ? 0x1p64f : size > 0x1p126f ? 0x1p-64f : 1.0f;
    return (rx_divisor){1.0f / (by * scale), scale};
}
static inline float rx_over(float a, rx_divisor by) { return a * by.inverse * by.scale; }
