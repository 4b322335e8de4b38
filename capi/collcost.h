/* What a collective operation costs, which algorithm to use: collcost from C and C++.
 *
 *     collcost_question *question;
 *     collcost_expectation expected;
 *     if (collcost_question_new("allreduce", 16 << 20, &question) ||
 *         collcost_question_set(question, "profile", "dgx-h100") ||
 *         collcost_question_set(question, "n", "64") ||
 *         collcost_expect(question, &expected))
 *         fprintf(stderr, "%s\n", collcost_error());
 *
 * Every function but the last four returns COLLCOST_OK or what went wrong; what was to be written is
 * then untouched, and collcost_error() has the words. Texts are UTF-8 and end in 0. Questions may be
 * used by one thread at a time; different questions by different threads.
 *
 * Functions, keys and fields are added, never changed: a program built with this header runs with every
 * later library of the same COLLCOST_API.
 */
#ifndef COLLCOST_H
#define COLLCOST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COLLCOST_API 1

typedef enum collcost_status {
    COLLCOST_OK = 0,
    /* A value that has no meaning here, such as a library whose rules are not known: collcost_error() says
     * which and what would be accepted. */
    COLLCOST_INPUT = 1,
    /* A parameter of the machine that the question needs and that nobody knows. */
    COLLCOST_UNKNOWN = 2,
    /* An algorithm, or a library whose rules are known, that does not do this. */
    COLLCOST_UNSUPPORTED = 3,
    /* A fault of the library itself. */
    COLLCOST_INTERNAL = 4
} collcost_status;

/* What an expectation rests on, the surest first. */
typedef enum collcost_basis {
    COLLCOST_MEASURED = 0,
    COLLCOST_SAME_BOARD = 1,
    COLLCOST_TRANSFERRED = 2,
    COLLCOST_MODELLED = 3
} collcost_basis;

/* Bytes of a name with its final 0. Longer names are cut at a letter. */
#define COLLCOST_NAME 64

/* What a call will take. */
typedef struct collcost_expectation {
    double time_s;         /* the median */
    double low_s;          /* a tenth of real times is shorter */
    double high_s;         /* a tenth is longer */
    double busbw_Bps;      /* as nccl-tests counts it; 0 without bytes */
    int32_t basis;         /* a collcost_basis */
    uint32_t channels;     /* at most, where it is NCCL; else 0 */
    char runs[COLLCOST_NAME]; /* what the library runs: NVLSTree/Simple */
} collcost_expectation;

/* The ideal price of an algorithm in the alpha-beta model: no measurement is in it. */
typedef struct collcost_ideal {
    double time_s;         /* all terms and the launch */
    double latency_s;      /* messages one after another, times alpha */
    double bandwidth_s;    /* bytes through the busiest port, over its rate */
    double bound_ratio;    /* time over the lower bound; 0 where there is none */
    uint32_t segments;     /* where it is pipelined; else 0 */
    uint32_t reserved;
} collcost_ideal;

/* A collective of a size, on a machine, over ranks. */
typedef struct collcost_question collcost_question;

/* Asks about `collective` ("allreduce", "ncclAllGather", "MPI_Bcast", ...) of `size_bytes` as nccl-tests
 * counts them. Without more it is on one node of the default machine. */
collcost_status collcost_question_new(const char *collective, uint64_t size_bytes,
                                      collcost_question **question);

/* Sets any parameter by its key in collcost.toml: "profile", "n", "alpha", "bw_inter", ...;
 * `collcost list parameters` names them. A profile by its path is read from the disk. */
collcost_status collcost_question_set(collcost_question *question, const char *key, const char *value);

/* The same question at another size. */
collcost_status collcost_question_set_size(collcost_question *question, uint64_t size_bytes);

/* What the call is expected to take. */
collcost_status collcost_expect(const collcost_question *question, collcost_expectation *expected);

/* The ideal price of an algorithm by its name or id, such as "ring". */
collcost_status collcost_price(const collcost_question *question, const char *algorithm,
                               collcost_ideal *ideal);

/* What a library picks by its own rules ("nccl", "openmpi@4.1", "mpich", ...) or those of a tuning file
 * ("rules-file:PATH"), as its own name. */
collcost_status collcost_choose(const collcost_question *question, const char *library,
                                char name[COLLCOST_NAME]);

/* Gives a question back; NULL is allowed. */
void collcost_question_free(collcost_question *question);

/* What the last function that failed on this thread had to say: what, where, what would be accepted, a
 * line each. Valid until the next failure on this thread; never NULL. */
const char *collcost_error(void);

/* The library's version, such as "0.2.0". */
const char *collcost_version(void);

/* The COLLCOST_API that the library was built with. */
uint32_t collcost_api(void);

#ifdef __cplusplus
}
#endif

#endif
