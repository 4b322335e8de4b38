// The peers' side of side_by_side: times blocks of one collective of whatever MPI it is compiled
// for. Which algorithm runs is set from outside, in the library's own variables.
//
//   usage: mpi FIFO-PREFIX MOST-BYTES CPU,CPU,…
//
// A rank reads its orders from FIFO-PREFIX.RANK, where it sleeps without spinning, so that many
// programs can wait while one is measured:
//   allreduce|bcast BYTES WARM REPS window|barrier
// Rank 0 answers on standard output with one line: the global span of each repetition in ns, the
// last end minus the first start over all ranks on CLOCK_MONOTONIC.
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void die(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

// Before MPI starts, so that its threads and its memory stay with the rank.
static void pin(const char *cpus) {
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (!rank) rank = getenv("PMI_RANK");
    if (!rank) die("no launcher says which rank this is");
    int many = 1;
    for (const char *c = cpus; *c; c++) many += *c == ',';
    for (int skip = atoi(rank) % many; skip > 0; skip--) cpus = strchr(cpus, ',') + 1;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(cpus), &set);
    if (sched_setaffinity(0, sizeof set, &set)) die("a rank cannot be pinned");
}

static int rank, ranks;
static float *buffer;
static uint64_t least = UINT64_MAX;

// Meets all ranks; with a window, spins until the time that rank 0 sets.
static void meet(int window) {
    uint64_t began = now();
    MPI_Barrier(MPI_COMM_WORLD);
    if (!window) return;
    uint64_t due = now();
    if (due - began < least) least = due - began;
    due += 4 * least > 50000 ? 4 * least : 50000;
    MPI_Bcast(&due, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    while (now() < due) continue;
}

static void operation(int reduces, size_t bytes) {
    if (reduces)
        MPI_Allreduce(MPI_IN_PLACE, buffer, (int)(bytes / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else
        MPI_Bcast(buffer, (int)bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

// One run on known numbers.
static void check(int reduces, size_t bytes) {
    for (size_t i = 0; i < bytes / 4; i++) buffer[i] = (float)(rank + 1 + i % 1000);
    operation(reduces, bytes);
    for (size_t i = 0; i < bytes / 4; i++) {
        float part = (float)(i % 1000);
        float sum = (float)(ranks * (ranks + 1) / 2) + (float)ranks * part;
        if (buffer[i] != (reduces ? sum : 1 + part)) die("a wrong result");
    }
}

int main(int count, char **words) {
    if (count != 4) die("usage: mpi FIFO-PREFIX MOST-BYTES CPU,CPU,…");
    pin(words[3]);
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    size_t most = strtoull(words[2], NULL, 10);
    // From a page on, as the other side's buffer.
    if (posix_memalign((void **)&buffer, 4096, most)) die("no memory");
    memset(buffer, 0, most);
    MPI_Barrier(MPI_COMM_WORLD);
    char path[4096], line[256], what[32], start[32];
    snprintf(path, sizeof path, "%s.%d", words[1], rank);
    FILE *orders = fopen(path, "r");
    if (!orders) die("no orders");
    if (rank == 0) puts("ready"), fflush(stdout);
    while (fgets(line, sizeof line, orders)) {
        size_t bytes;
        int warm, reps;
        if (sscanf(line, "%31s %zu %d %d %31s", what, &bytes, &warm, &reps, start) != 5) break;
        int reduces = strcmp(what, "allreduce") == 0, window = strcmp(start, "window") == 0;
        if (bytes > most || reps < 1) die("an order out of bounds");
        uint64_t *times = malloc(4 * sizeof *times * (size_t)reps);
        uint64_t *first = times + 2 * reps, *last = times + 3 * reps;
        check(reduces, bytes);
        for (int rep = -warm; rep < reps; rep++) {
            meet(window);
            uint64_t begin = now();
            operation(reduces, bytes);
            uint64_t end = now();
            if (rep >= 0) times[rep] = begin, times[reps + rep] = end;
        }
        MPI_Reduce(times, first, reps, MPI_UINT64_T, MPI_MIN, 0, MPI_COMM_WORLD);
        MPI_Reduce(times + reps, last, reps, MPI_UINT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
        if (rank == 0) {
            for (int rep = 0; rep < reps; rep++)
                printf("%llu ", (unsigned long long)(last[rep] - first[rep]));
            puts("");
            fflush(stdout);
        }
        free(times);
        // Nobody goes to sleep while another still needs him.
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
