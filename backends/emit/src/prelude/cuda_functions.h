/* Functions as CUDA has them in f64, within 2 units in the last place as its Programming Guide states, but for erfc (5),
   asinh and acosh (3), and our own sigmoid (4). f32 and narrower are computed in f64 and rounded once. Where floats may be
   rounded otherwise (RX_ANY_ORDER), some of f32 are CUDA's of f32: within 2 units, sigmoid and erfc within 4. */
#define RX_FUNCTION(name, value)                                                                 \
    static inline double rx_##name##_f64(double x) { return value; }                             \
    static inline float rx_##name##_f32(float x) { return (float)rx_##name##_f64((double)x); }
#ifdef RX_ANY_ORDER
#define RX_BOTH(name, value, narrow)                                                             \
    static inline double rx_##name##_f64(double x) { return value; }                             \
    static inline float rx_##name##_f32(float x) { return narrow; }
#else
#define RX_BOTH(name, value, narrow) RX_FUNCTION(name, value)
#endif
RX_BOTH(exp, exp(x), expf(x))
RX_BOTH(log, log(x), logf(x))
RX_BOTH(rsqrt, 1.0 / sqrt(x), 1.0f / sqrtf(x))
RX_BOTH(sin, sin(x), sinf(x))
RX_BOTH(cos, cos(x), cosf(x))
RX_FUNCTION(tan, tan(x))
RX_FUNCTION(asin, asin(x))
RX_FUNCTION(acos, acos(x))
RX_FUNCTION(atan, atan(x))
RX_FUNCTION(sinh, sinh(x))
RX_FUNCTION(cosh, cosh(x))
RX_BOTH(tanh, tanh(x), tanhf(x))
RX_FUNCTION(asinh, asinh(x))
RX_FUNCTION(acosh, acosh(x))
RX_FUNCTION(atanh, atanh(x))
RX_FUNCTION(expm1, expm1(x))
RX_FUNCTION(log1p, log1p(x))
RX_BOTH(erf, erf(x), erff(x))
RX_BOTH(erfc, erfc(x), erfcf(x))
RX_BOTH(sigmoid, (x >= 0 ? 1.0 : exp(x)) / (1.0 + exp(-fabs(x))), (x >= 0 ? 1.0f : expf(x)) / (1.0f + expf(-fabsf(x))))

static inline double rx_pow_f64(double x, double y) { return pow(x, y); }
static inline float rx_pow_f32(float x, float y) { return (float)pow((double)x, (double)y); }
static inline double rx_atan2_f64(double x, double y) { return atan2(x, y); }
static inline float rx_atan2_f32(float x, float y) { return (float)atan2((double)x, (double)y); }
