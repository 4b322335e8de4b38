/* A stand-in for NVML: clocks of 1980 MHz, 1755 while STANDIN_HELD, a number, says by its bits what
 * holds GPUs back. */
#include <stdlib.h>
#include <string.h>

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code ? "no" : "yes"; }

int nvmlDeviceGetHandleByUUID(const char *id, void **gpu) {
    *gpu = (void *)id;
    return strncmp(id, "GPU-00000000-0000-0000-0000-0000000000", 38) ? 6 : 0;
}
int nvmlDeviceGetClockInfo(void *gpu, int type, unsigned *mhz) {
    (void)gpu;
    *mhz = getenv("STANDIN_HELD") ? 1755 : 1980;
    return type != 1;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons) {
    const char *held = getenv("STANDIN_HELD");
    (void)gpu;
    *reasons = held ? strtoull(held, 0, 0) : 1;
    return 0;
}
