/* A stand-in for NVML: clocks of 1980 MHz, 1755 while STANDIN_HELD, a number, says by its bits what
 * holds GPUs back. */
#include <stdlib.h>
#include <string.h>

int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
const char *nvmlErrorString(int code) { return code ? "no" : "yes"; }

int nvmlDeviceGetHandleByUUID(const char *id, void **gpu) {
    *gpu = (void *)id;
    if (!strncmp(id, "MIG-16000000-0000-0000-0000-0000000000", 38)) return 0;
    return strncmp(id, "GPU-00000000-0000-0000-0000-0000000000", 38) ? 6 : 0;
}
/* A part of a GPU has no clock of its own. */
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *part, void **gpu) {
    (void)part;
    *gpu = "whole";
    return 0;
}
int nvmlDeviceGetClockInfo(void *gpu, int type, unsigned *mhz) {
    if (!strncmp(gpu, "MIG-", 4)) return 3;
    *mhz = getenv("STANDIN_HELD") ? 1755 : 1980;
    return type != 1;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons) {
    const char *held = getenv("STANDIN_HELD");
    (void)gpu;
    *reasons = held ? strtoull(held, 0, 0) : 1;
    return 0;
}
