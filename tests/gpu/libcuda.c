/* A stand-in for NVIDIA's driver, for tests where there is no GPU: memory of the host, a clock per
 * stream that what is started moves on by what it is said to cost, and waiting that lasts as long.
 *
 * Known figures, slow beside what the host's own copies take: copies between GPUs 20 us and 1 GB/s, in
 * memory 8 us and 5 GB/s, additions by a kernel 6 us and by a graph 3 us and 2 GB/s, to and from the
 * host 10 us and 0.5 GB/s.
 *
 * STANDIN_GPUS says how many there are; STANDIN_HANG=copy has copies between GPUs never end, and =start
 * the start of the driver; STANDIN_SLOW has it take so many seconds. STANDIN_MIG: they are parts of
 * GPUs. STANDIN_NO_CAPTURE: what NCCL starts can be in no graph. Made with -DSTUB it is the stub of a
 * toolkit. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int Result;
typedef struct { int gpu; } Context;
typedef struct { float *into, *from; uint64_t count; } Sum;
typedef struct { Sum sum; int sums; double spent; } Graph;
typedef struct { double clock, busy; int capturing; Graph graph; } Stream;
typedef struct { double at; } Event;

static __thread Context *current;
static Context contexts[16];

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int gpus(void) {
    const char *text = getenv("STANDIN_GPUS");
    return text ? atoi(text) : 4;
}

/* For the stand-in of NCCL: time on the GPU's clock alone, and whose calls these are. */
void standin_spend(void *stream, double seconds) {
    Stream *s = stream;
    if (s->capturing) s->graph.spent += seconds;
    else s->clock += seconds;
}
void standin_stall(void *stream) { ((Stream *)stream)->busy = now() + 1e6; }
void standin_release(void *stream) { ((Stream *)stream)->busy = 0; }
int standin_refuses(void *stream) {
    return ((Stream *)stream)->capturing && getenv("STANDIN_NO_CAPTURE");
}
int standin_current(void) { return current ? current->gpu : -1; }

static void spend(Stream *s, double seconds) {
    double start = now() > s->busy ? now() : s->busy;
    s->busy = start + seconds;
    s->clock += seconds;
}

Result cuInit(unsigned flags) {
#ifdef STUB
    return 34;
#endif
    const char *hang = getenv("STANDIN_HANG"), *slow = getenv("STANDIN_SLOW");
    if (hang && !strcmp(hang, "start")) for (;;) pause();
    if (slow) usleep(atof(slow) * 1e6);
    return flags != 0;
}
Result cuDriverGetVersion(int *v) { *v = 12040; return 0; }
Result cuDeviceGetCount(int *n) { *n = gpus(); return 0; }
Result cuDeviceGet(int *d, int i) { *d = i; return i < 0 || i >= gpus() ? 101 : 0; }
Result cuDeviceGetName(char *name, int length, int d) {
    (void)d;
    snprintf(name, length, getenv("STANDIN_MIG") ? "Stand-in GPU MIG 1g.10gb" : "Stand-in GPU");
    return 0;
}
Result cuDeviceGetUuid_v2(char *id, int d) {
    memset(id, 0, 16);
    if (getenv("STANDIN_MIG")) id[0] = 0x16;
    id[15] = d + 1;
    return 0;
}
Result cuDeviceCanAccessPeer(int *can, int a, int b) { *can = a != b && a < 3 && b < 3; return 0; }
Result cuDevicePrimaryCtxRetain(Context **c, int d) {
    contexts[d].gpu = d;
    *c = &contexts[d];
    return 0;
}
Result cuDevicePrimaryCtxRelease_v2(int d) { (void)d; return 0; }
Result cuCtxSetCurrent(Context *c) { current = c; return 0; }
Result cuCtxEnablePeerAccess(Context *c, unsigned flags) {
    (void)flags;
    return c->gpu < 3 && current->gpu < 3 ? 0 : 217;
}
Result cuGetErrorName(Result r, const char **name) {
    *name = r == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_UNKNOWN";
    return 0;
}
Result cuGetErrorString(Result r, const char **text) { return cuGetErrorName(r, text); }

Result cuStreamCreate(Stream **s, unsigned flags) {
    (void)flags;
    *s = calloc(1, sizeof **s);
    return 0;
}
Result cuStreamDestroy_v2(Stream *s) { free(s); return 0; }
Result cuStreamSynchronize(Stream *s) {
    double left;
    while ((left = s->busy - now()) > 0)
        if (left > 2e-4) usleep((left - 1e-4) * 1e6);
    return 0;
}

Result cuStreamQuery(Stream *s) { return s->busy > now() ? 600 : 0; }

Result cuMemGetInfo_v2(size_t *free, size_t *all) {
    *free = *all = (size_t)1 << 32;
    return 0;
}
Result cuMemAlloc_v2(uint64_t *at, size_t bytes) {
    if (bytes > (size_t)1 << 32) return 2;
    *at = (uint64_t)(uintptr_t)malloc(bytes);
    return 0;
}
Result cuMemFree_v2(uint64_t at) { free((void *)(uintptr_t)at); return 0; }
Result cuMemHostAlloc(void **at, size_t bytes, unsigned flags) {
    (void)flags;
    *at = malloc(bytes);
    return 0;
}
Result cuMemFreeHost(void *at) { free(at); return 0; }

Result cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, Stream *s) {
    spend(s, 10e-6 + n / 0.5e9);
    memcpy((void *)(uintptr_t)to, from, n);
    return 0;
}
Result cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, Stream *s) {
    spend(s, 10e-6 + n / 0.5e9);
    memcpy(to, (void *)(uintptr_t)from, n);
    return 0;
}
Result cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, Stream *s) {
    spend(s, 8e-6 + n / 5e9);
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
    return 0;
}
Result cuMemcpyPeerAsync(uint64_t to, Context *a, uint64_t from, Context *b, size_t n, Stream *s) {
    const char *hang = getenv("STANDIN_HANG");
    (void)a, (void)b;
    if (hang && !strcmp(hang, "copy")) for (;;) pause();
    spend(s, 20e-6 + n / 1e9);
    memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
    return 0;
}

static void add(Sum sum) {
    for (uint64_t i = 0; i < sum.count; i++) sum.into[i] += sum.from[i];
}

Result cuModuleLoadData(void **m, const void *image) {
    *m = m;
    return strstr(image, ".entry add") ? 0 : 218;
}
Result cuModuleGetFunction(void **f, void *m, const char *name) { *f = m; return strcmp(name, "add") ? 500 : 0; }
Result cuModuleUnload(void *m) { (void)m; return 0; }
Result cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                      unsigned bz, unsigned shared, Stream *s, void **p, void **extra) {
    (void)f, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared, (void)extra;
    Sum sum = {*(float **)p[0], *(float **)p[1], *(uint64_t *)p[2]};
    if (s->capturing) {
        s->graph.sum = sum;
        s->graph.sums = 1;
        return 0;
    }
    spend(s, 6e-6 + 4.0 * sum.count / 2e9);
    add(sum);
    return 0;
}

Result cuEventCreate(Event **e, unsigned flags) { (void)flags; *e = calloc(1, sizeof **e); return 0; }
Result cuEventDestroy_v2(Event *e) { free(e); return 0; }
Result cuEventRecord(Event *e, Stream *s) { e->at = s->clock; return 0; }
Result cuEventElapsedTime(float *ms, Event *a, Event *b) { *ms = 1e3 * (b->at - a->at); return 0; }

Result cuStreamBeginCapture_v2(Stream *s, int mode) {
    (void)mode;
    s->capturing = 1;
    memset(&s->graph, 0, sizeof s->graph);
    return 0;
}
Result cuStreamEndCapture(Stream *s, Graph **graph) {
    s->capturing = 0;
    *graph = malloc(sizeof **graph);
    **graph = s->graph;
    return 0;
}
Result cuGraphInstantiateWithFlags(Graph **run, Graph *graph, unsigned long long flags) {
    (void)flags;
    *run = malloc(sizeof **run);
    **run = *graph;
    return 0;
}
#ifndef OLD_DRIVER
Result cuGraphLaunch(Graph *run, Stream *s) {
    s->clock += run->spent;
    if (run->sums) {
        spend(s, 3e-6 + 4.0 * run->sum.count / 2e9);
        add(run->sum);
    }
    return 0;
}
#endif
Result cuGraphExecDestroy(Graph *run) { free(run); return 0; }
Result cuGraphDestroy(Graph *graph) { free(graph); return 0; }
