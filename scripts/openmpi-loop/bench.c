// Times Open MPI's collectives one after another, for scripts/openmpi-loop.
//
//   usage: bench [COLLECTIVE] BYTES:RUNS...
//
// A run's time is the last rank's end minus the first rank's start, on CLOCK_MONOTONIC, which all
// processes of one host share, also those in network namespaces of their own. Ranks meet before
// each run, and the first run of each call is not counted. Rank 0 prints one line a
// call: collective, bytes, the median in ns.
//
// BYTES is what nccl-tests calls the size: the whole vector; calls in blocks take N blocks of
// ⌊elements/N⌋ floats. Results are compared once a call, before anything is timed.
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int rank, ranks, *counts;
static float *from, *into;

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void allreduce(int count) {
    MPI_Allreduce(from, into, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void broadcast(int count) { MPI_Bcast(into, count, MPI_FLOAT, 0, MPI_COMM_WORLD); }
static void reduce(int count) {
    MPI_Reduce(from, into, count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}
static void reducescatter(int count) {
    for (int i = 0; i < ranks; i++) counts[i] = count / ranks;
    MPI_Reduce_scatter(from, into, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}
static void allgather(int count) {
    int block = count / ranks;
    MPI_Allgather(from, block, MPI_FLOAT, into, block, MPI_FLOAT, MPI_COMM_WORLD);
}
static void alltoall(int count) {
    int block = count / ranks;
    MPI_Alltoall(from, block, MPI_FLOAT, into, block, MPI_FLOAT, MPI_COMM_WORLD);
}

// What element i must be, of vectors in which element i of rank r is r + i mod 64.
static float sum(int i) { return (float)(ranks * (ranks - 1) / 2 + ranks * (i % 64)); }
static float of_allreduce(int i, int block) { return (void)block, sum(i); }
static float of_broadcast(int i, int block) { return (void)block, (float)(i % 64); }
static float of_reducescatter(int i, int block) { return sum(rank * block + i); }
static float of_allgather(int i, int block) { return (float)(i / block + i % block % 64); }
static float of_alltoall(int i, int block) {
    return (float)(i / block + (rank * block + i % block) % 64);
}

static const struct {
    const char *name;
    void (*call)(int count);
    float (*result)(int i, int block);
    int in_blocks; // 1: the result is N blocks, 2: it is one
    int root_only;
} ALL[] = {
    {"allreduce", allreduce, of_allreduce, 0, 0},
    {"broadcast", broadcast, of_broadcast, 0, 0},
    {"reduce", reduce, of_allreduce, 0, 1},
    {"reducescatter", reducescatter, of_reducescatter, 2, 0},
    {"allgather", allgather, of_allgather, 1, 0},
    {"alltoall", alltoall, of_alltoall, 1, 0},
};

static void check(size_t which, int count) {
    for (int i = 0; i < count; i++) from[i] = (float)(rank + i % 64);
    // Of a broadcast `into` is the input too.
    for (int i = 0; i < count; i++) into[i] = rank == 0 ? (float)(i % 64) : -1;
    ALL[which].call(count);
    if (ALL[which].root_only && rank != 0) return;
    int block = count / ranks;
    int many = ALL[which].in_blocks == 0 ? count : ALL[which].in_blocks == 1 ? ranks * block : block;
    for (int i = 0; i < many; i++) {
        if (into[i] == ALL[which].result(i, block)) continue;
        fprintf(stderr, "rank %d: a wrong result of %s, element %d\n", rank, ALL[which].name, i);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

// By messages of its own: a tuning file may have other barriers than the library.
static void meet(void) {
    for (int distance = 1; distance < ranks; distance *= 2) {
        int to = (rank + distance) % ranks, by = (rank - distance + ranks) % ranks;
        MPI_Sendrecv(NULL, 0, MPI_BYTE, to, 1, NULL, 0, MPI_BYTE, by, 1, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
    }
}

static uint64_t median(size_t which, int count, int runs) {
    uint64_t *begins = malloc((size_t)runs * sizeof *begins), *ends = malloc((size_t)runs * sizeof *ends);
    uint64_t *first = malloc((size_t)runs * sizeof *first), *last = malloc((size_t)runs * sizeof *last);
    for (int run = -1; run < runs; run++) {
        meet();
        uint64_t begin = now();
        ALL[which].call(count);
        uint64_t end = now();
        if (run >= 0) begins[run] = begin, ends[run] = end;
    }
    MPI_Reduce(begins, first, runs, MPI_UINT64_T, MPI_MIN, 0, MPI_COMM_WORLD);
    MPI_Reduce(ends, last, runs, MPI_UINT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
    uint64_t middle = 0;
    if (rank == 0) {
        for (int run = 0; run < runs; run++) last[run] -= first[run];
        qsort(last, (size_t)runs, sizeof *last, ascending);
        middle = (last[(runs - 1) / 2] + last[runs / 2]) / 2;
    }
    free(begins), free(ends), free(first), free(last);
    return middle;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    counts = calloc((size_t)ranks, sizeof *counts);
    const char *only = NULL;
    for (int word = 1; word < argc; word++) {
        int bytes, runs;
        if (word == 1 && !strchr(argv[word], ':')) {
            only = argv[word];
            continue;
        }
        if (sscanf(argv[word], "%d:%d", &bytes, &runs) != 2 || bytes / 4 < ranks || runs < 1) {
            fprintf(stderr, "`%s` is no BYTES:RUNS\n", argv[word]);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        from = malloc((size_t)bytes), into = malloc((size_t)bytes);
        for (size_t which = 0; which < sizeof ALL / sizeof *ALL; which++) {
            if (only && strcmp(only, ALL[which].name)) continue;
            check(which, bytes / 4);
            uint64_t time = median(which, bytes / 4, runs);
            if (rank == 0) printf("%s %d %llu\n", ALL[which].name, bytes, (unsigned long long)time);
            if (rank == 0) fflush(stdout);
        }
        free(from), free(into);
    }
    MPI_Finalize();
    return 0;
}
