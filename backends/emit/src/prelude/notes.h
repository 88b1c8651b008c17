/* What a check that failed has found, for its message; of each thread. The array is in the first unit of a text. */
#include <stdarg.h>
#define RX_NOTES 8
#if !defined RX_PART || RX_PART == 0
__attribute__((visibility("hidden"))) _Thread_local int64_t rx_notes[RX_NOTES];
/* The array of the calling thread. */
int64_t *relax_notes(void) { return rx_notes; }
#else
extern __attribute__((visibility("hidden"))) _Thread_local int64_t rx_notes[RX_NOTES];
#endif

/* Notes so many values, each an int64_t. */
static __attribute__((noinline, cold, unused)) void rx_note(int count, ...) {
    va_list values;
    va_start(values, count);
    for (int at = 0; at < count; at++) rx_notes[at] = va_arg(values, int64_t);
    va_end(values);
}
