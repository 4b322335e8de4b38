/* Preloaded: says which algorithm of Open MPI's coll/base a rank enters, and with which segment
 * size where it is asked for one. coll/tuned calls them as exported functions, so the first of a
 * call is what it decided for. Arguments are handed on as they are: all fit into words, of which
 * the chain of a reduce takes the most, eleven. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "says.h"

typedef long word;
typedef word (*algorithm)(word, word, word, word, word, word, word, word, word, word, word, word);

static int speaks(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    return rank && !strcmp(rank, "0");
}

static algorithm real(const char *name)
{
    algorithm found = (algorithm)dlsym(RTLD_NEXT, name);
    if (!found)
        abort();
    return found;
}

static void says(const char *name, int segment)
{
    if (speaks())
        fprintf(said(), "RUNS 0 %s %d\n", name, segment);
}

/* The segment size is an unsigned 32-bit argument; 0 stands for those that have none. */
#define SPY_SEGMENT(name, segment)                                                                 \
    word ompi_coll_base_##name(word a, word b, word c, word d, word e, word f, word g, word h,     \
                               word i, word j, word k, word l)                                     \
    {                                                                                              \
        says(#name, (int)(segment));                                                               \
        return real("ompi_coll_base_" #name)(a, b, c, d, e, f, g, h, i, j, k, l);                        \
    }
#define SPY(name) SPY_SEGMENT(name, 0)

SPY(allgather_intra_basic_linear)
SPY(allgather_intra_bruck)
SPY(allgather_intra_neighborexchange)
SPY(allgather_intra_recursivedoubling)
SPY(allgather_intra_ring)
SPY(allgather_intra_two_procs)
SPY(allreduce_intra_basic_linear)
SPY(allreduce_intra_nonoverlapping)
SPY(allreduce_intra_recursivedoubling)
SPY(allreduce_intra_redscat_allgather)
SPY(allreduce_intra_ring)
SPY(allreduce_intra_ring_segmented)
SPY(alltoall_intra_basic_linear)
SPY(alltoall_intra_bruck)
SPY(alltoall_intra_linear_sync)
SPY(alltoall_intra_pairwise)
SPY(alltoall_intra_two_procs)
SPY(barrier_intra_basic_linear)
SPY(barrier_intra_bruck)
SPY(barrier_intra_doublering)
SPY(barrier_intra_recursivedoubling)
SPY(barrier_intra_tree)
SPY(barrier_intra_two_procs)
SPY(bcast_intra_basic_linear)
SPY_SEGMENT(bcast_intra_binomial, g)
SPY_SEGMENT(bcast_intra_bintree, g)
SPY(bcast_intra_chain)
SPY(bcast_intra_knomial)
SPY_SEGMENT(bcast_intra_pipeline, g)
SPY(bcast_intra_scatter_allgather)
SPY(bcast_intra_scatter_allgather_ring)
SPY_SEGMENT(bcast_intra_split_bintree, g)
SPY(gather_intra_basic_linear)
SPY(gather_intra_binomial)
SPY(gather_intra_linear_sync)
SPY(reduce_intra_basic_linear)
SPY_SEGMENT(reduce_intra_binary, i)
SPY_SEGMENT(reduce_intra_binomial, i)
SPY(reduce_intra_chain)
SPY(reduce_intra_in_order_binary)
SPY_SEGMENT(reduce_intra_pipeline, i)
SPY(reduce_intra_redscat_gather)
SPY(reduce_scatter_block_basic_linear)
SPY(reduce_scatter_block_intra_butterfly)
SPY(reduce_scatter_block_intra_recursivedoubling)
SPY(reduce_scatter_block_intra_recursivehalving)
SPY(reduce_scatter_intra_basic_recursivehalving)
SPY(reduce_scatter_intra_butterfly)
SPY(reduce_scatter_intra_nonoverlapping)
SPY(reduce_scatter_intra_ring)
SPY(scatter_intra_basic_linear)
SPY(scatter_intra_binomial)
SPY(scatter_intra_linear_nb)
