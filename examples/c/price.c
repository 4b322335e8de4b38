/* Prices an all-reduce of 16 MiB on 64 GPUs from C.
 *
 *     cargo build --profile capi --package collcost-capi
 *     cc examples/c/price.c -Icapi -Ltarget/capi -lcollcost -o price
 *     LD_LIBRARY_PATH=target/capi ./price
 */
#include <assert.h>
#include <collcost.h>
#include <stdio.h>
#include <stdlib.h>

/* What both sides of the border take for granted. */
static_assert(sizeof(collcost_expectation) == 104, "the layout of an expectation");
static_assert(offsetof(collcost_expectation, basis) == 32, "the layout of an expectation");
static_assert(offsetof(collcost_expectation, runs) == 40, "the layout of an expectation");
static_assert(sizeof(collcost_ideal) == 40, "the layout of an ideal price");

static void hold(collcost_status status)
{
    if (status == COLLCOST_OK)
        return;
    fprintf(stderr, "error: %s\n", collcost_error());
    exit(2);
}

int main(void)
{
    collcost_question *question;
    collcost_expectation expected;
    collcost_ideal ring;
    char runs[COLLCOST_NAME];

    if (collcost_api() < COLLCOST_API) {
        fprintf(stderr, "error: libcollcost %s is older than this program\n", collcost_version());
        return 2;
    }
    hold(collcost_question_new("allreduce", 16 << 20, &question));
    hold(collcost_question_set(question, "profile", "dgx-h100"));
    hold(collcost_question_set(question, "n", "64"));

    hold(collcost_expect(question, &expected));
    printf("expected %.1f us (%.1f to %.1f), busbw %.1f GB/s, runs %s\n", 1e6 * expected.time_s,
           1e6 * expected.low_s, 1e6 * expected.high_s, 1e-9 * expected.busbw_Bps, expected.runs);
    hold(collcost_price(question, "ring", &ring));
    printf("ring ideal %.1f us = latency %.1f us + bandwidth %.1f us\n", 1e6 * ring.time_s,
           1e6 * ring.latency_s, 1e6 * ring.bandwidth_s);
    for (uint64_t size = 64 << 10; size <= UINT64_C(4) << 30; size <<= 8) {
        hold(collcost_question_set_size(question, size));
        hold(collcost_choose(question, "nccl", runs));
        printf("nccl at %llu bytes: %s\n", (unsigned long long)size, runs);
    }
    collcost_question_free(question);
    return 0;
}
