/* Functions as CUDA has them, with the bounds that its Programming Guide states, in units in the last place: of f32
   exp, expm1, log and log1p 1, sin, cos and erf 2, erfc 4, tan 4, asin and acos 2, atan 2, sinh and
   atanh 3, cosh 2, asinh 3, acosh 4, tanh 2, atan2 3, pow 4; of f64 2 for each but erfc (5), asinh and acosh (3). f16 and
   bf16 are computed in f64 and rounded once. sigmoid is our own: 4 in f32, 4 in f64. */
#define RX_FUNCTION(name)                                                                        \
    static inline double rx_##name##_f64(double x) { return name(x); }                           \
    static inline float rx_##name##_f32(float x) { return name##f(x); }
RX_FUNCTION(exp)
RX_FUNCTION(log)
RX_FUNCTION(sin)
RX_FUNCTION(cos)
RX_FUNCTION(tan)
RX_FUNCTION(asin)
RX_FUNCTION(acos)
RX_FUNCTION(atan)
RX_FUNCTION(sinh)
RX_FUNCTION(cosh)
RX_FUNCTION(tanh)
RX_FUNCTION(asinh)
RX_FUNCTION(acosh)
RX_FUNCTION(atanh)
RX_FUNCTION(expm1)
RX_FUNCTION(log1p)
RX_FUNCTION(erf)
RX_FUNCTION(erfc)

static inline double rx_rsqrt_f64(double x) { return 1.0 / sqrt(x); }
static inline float rx_rsqrt_f32(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline double rx_pow_f64(double x, double y) { return pow(x, y); }
static inline float rx_pow_f32(float x, float y) { return powf(x, y); }
static inline double rx_atan2_f64(double x, double y) { return atan2(x, y); }
static inline float rx_atan2_f32(float x, float y) { return atan2f(x, y); }
static inline double rx_sigmoid_f64(double x) {
    double small = exp(-fabs(x));
    return (x >= 0 ? 1.0 : small) / (1.0 + small);
}
static inline float rx_sigmoid_f32(float x) {
    float small = expf(-fabsf(x));
    return (x >= 0 ? 1.0f : small) / (1.0f + small);
}
