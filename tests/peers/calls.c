/* Makes the collective calls that are named, one after another, and says (says.h) which
 * one runs between its two lines. A call is collective:bytes, with the bytes of M: of the whole
 * vector, or of all ranks together for all-gather and reduce-scatter, or of one rank's buffer for an
 * all-to-all. "user:" before a reduction takes an operation of the user instead of MPI_SUM. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "says.h"

static void add(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)type;
    for (int i = 0; i < *count; i++)
        ((float *)inout)[i] += ((float *)in)[i];
}

int main(int argc, char **argv)
{
    int rank, ranks;
    MPI_Op user;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Op_create(add, 1, &user);
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *colon = strrchr(name, ':');
        if (!colon)
            MPI_Abort(MPI_COMM_WORLD, 2);
        size_t bytes = strtoul(colon + 1, NULL, 10);
        int has_user = !strncmp(name, "user:", 5);
        MPI_Op op = has_user ? user : MPI_SUM;
        name += has_user ? 5 : 0;
        int count = (int)(bytes / sizeof(float)), block = count / ranks;
        /* Room for what is sent, and behind it for what is received. */
        float *from = calloc((size_t)count + ranks, sizeof(float));
        float *to = calloc((size_t)count + ranks, sizeof(float));
        MPI_Barrier(MPI_COMM_WORLD);
        fprintf(said(), "CALL %d %s\n", rank, argv[i]);
        if (!strncmp(name, "allreduce:", 10))
            MPI_Allreduce(from, to, count, MPI_FLOAT, op, MPI_COMM_WORLD);
        else if (!strncmp(name, "broadcast:", 10))
            MPI_Bcast(from, count, MPI_FLOAT, 0, MPI_COMM_WORLD);
        else if (!strncmp(name, "reduce:", 7))
            MPI_Reduce(from, to, count, MPI_FLOAT, op, 0, MPI_COMM_WORLD);
        else if (!strncmp(name, "allgather:", 10))
            MPI_Allgather(from, block, MPI_FLOAT, to, block, MPI_FLOAT, MPI_COMM_WORLD);
        else if (!strncmp(name, "reducescatter:", 14)) {
            int *counts = calloc(ranks, sizeof(int));
            for (int r = 0; r < ranks; r++)
                counts[r] = block;
            MPI_Reduce_scatter(from, to, counts, MPI_FLOAT, op, MPI_COMM_WORLD);
            free(counts);
        } else if (!strncmp(name, "reducescatter-block:", 20))
            MPI_Reduce_scatter_block(from, to, block, MPI_FLOAT, op, MPI_COMM_WORLD);
        else if (!strncmp(name, "alltoall:", 9))
            MPI_Alltoall(from, block, MPI_FLOAT, to, block, MPI_FLOAT, MPI_COMM_WORLD);
        else if (!strncmp(name, "gather:", 7))
            MPI_Gather(from, block, MPI_FLOAT, to, block, MPI_FLOAT, 0, MPI_COMM_WORLD);
        else if (!strncmp(name, "scatter:", 8))
            MPI_Scatter(from, block, MPI_FLOAT, to, block, MPI_FLOAT, 0, MPI_COMM_WORLD);
        else if (!strncmp(name, "barrier:", 8))
            MPI_Barrier(MPI_COMM_WORLD);
        else
            MPI_Abort(MPI_COMM_WORLD, 3);
        fprintf(said(), "DONE %d %s\n", rank, argv[i]);
        free(from);
        free(to);
    }
    MPI_Op_free(&user);
    MPI_Finalize();
    return 0;
}
