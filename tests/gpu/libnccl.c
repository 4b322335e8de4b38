/* A stand-in for NCCL, for tests where there is no GPU: it adds and copies on the host, moves the
 * clocks of its streams on by a cost that is known, and writes NCCL's log.
 *
 * T = o + n_a a + n_b M/BW: LL 5 us, 1 us, 20 GB/s; LL128 9 us, 1.6 us, 60 GB/s; Simple 15 us, 2 us,
 * 100 GB/s; n_a and n_b of rings and of trees that are chains. NVLS 12 us and 150 GB/s.
 *
 * A way such as Ring/LL128 in one of these has it happen to that way alone: STANDIN_FALLBACK (it
 * runs Simple), STANDIN_HANG, STANDIN_ABORT, STANDIN_REFUSE. STANDIN_WRONG: results are off by one.
 * STANDIN_VERSION: another version and its log. STANDIN_NVLS: its table has NVLS. STANDIN_FAULT: a way
 * whose peer is gone, so that the GPU works for ever and the communicator says so when it is asked.
 * Groups of sends and receives take what one step of Simple does.
 *
 * Ranks of several processes meet in a file of memory beside the log, whose name is the id. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void standin_spend(void *stream, double seconds);
void standin_stall(void *stream);
void standin_release(void *stream);
int standin_refuses(void *stream);
int standin_current(void);

enum { TREE, RING, NVLS = 4, ALGOS = 7 };
enum { BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, MESSAGES };
enum { F32 = 7, BF16 = 9 };
static const char *FUNCTIONS[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce"};
static const char *ALGO[] = {"Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT"};
static const char *UPPER[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
static const char *PROTO[] = {"LL", "LL128", "Simple"};
static const char *LOUD[] = {"LL", "LL128", "SIMPLE"};
static const double START[] = {5e-6, 9e-6, 15e-6}, STEP[] = {1e-6, 1.6e-6, 2e-6},
                    RATE[] = {20e9, 60e9, 100e9};

typedef struct { char text[128]; } Id;
typedef struct {
    int rank, ranks, gpu, ready, function, root, type;
    const char *send;
    char *receive;
    size_t count;
    void *stream;
    /* Of a group: from whom it receives, and how many it sends to. */
    int from[64], receives, sends;
    char *into[64];
} Comm;

static int width(int type) { return type == BF16 ? 2 : 4; }
static float number(const char *at, size_t i, int type) {
    if (type == F32) return ((const float *)at)[i];
    unsigned bits = (unsigned)((const unsigned short *)at)[i] << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
static void put(char *at, size_t i, int type, float value) {
    unsigned bits;
    if (type == F32) ((float *)at)[i] = value;
    else memcpy(&bits, &value, 4), ((unsigned short *)at)[i] = bits >> 16;
}

/* What ranks of several processes share: how many have come to how many meetings, and what each
 * sends. */
enum { SLOT = 8 << 20 };
typedef struct {
    atomic_int ranks, meetings;
    char sent[64][SLOT];
} Room;

static Comm *all[64];
static int members, depth;
static FILE *out;
static Room *room;
static const char *sent[64];

/* Waits for all ranks, in whatever process. */
static void meet(void) {
    if (!room) return;
    int now = atomic_load(&room->meetings);
    if (atomic_fetch_add(&room->ranks, members) + members == all[0]->ranks) {
        atomic_store(&room->ranks, 0);
        atomic_store(&room->meetings, now + 1);
    }
    while (atomic_load(&room->meetings) == now) sched_yield();
}

static int version(void) {
    const char *text = getenv("STANDIN_VERSION");
    return text ? atoi(text) : 22703;
}

static int is(const char *variable, const char *algo, const char *proto) {
    char way[64];
    const char *text = getenv(variable);
    snprintf(way, sizeof way, "%s/%s", algo, proto);
    return text && !strcmp(text, way);
}

static int told(const char *variable) {
    const char *algo = getenv("NCCL_ALGO"), *proto = getenv("NCCL_PROTO");
    return algo && proto && is(variable, algo, proto);
}

static char place[128];

/* Where some ranks are of other processes, their memory is shared. */
static int enter(void) {
    if (!members || members == all[0]->ranks || room) return 0;
    int file = open(place, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof *room)) return 2;
    void *at = mmap(0, sizeof *room, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED) return 2;
    room = at;
    meet();
    if (!all[0]->rank) unlink(place);
    return 0;
}

static void say(const char *line) {
    if (out) fprintf(out, "node0:%d:%d [0] NCCL INFO %s\n", getpid(), getpid(), line);
}

/* The table, in blocks of three algorithms: 10 us and 100 GB/s where there is a way. */
static void table(void) {
    for (int first = 0; first < ALGOS; first += 3) {
        int last = first + 3 < ALGOS ? first + 3 : ALGOS;
        char line[1024];
        strcpy(line, "  Algorithm   |");
        for (int a = first; a < last; a++)
            sprintf(line + strlen(line), " %14s   %14s   %14s |", "", ALGO[a], "");
        say(line);
        strcpy(line, "  Protocol    |");
        for (int p = 0; p < 9; p++) sprintf(line + strlen(line), " %14s |", PROTO[p % 3]);
        say(line);
        strcpy(line, " Max NThreads |");
        for (int c = 3 * first; c < 3 * last; c++) sprintf(line + strlen(line), " %14d |", 512);
        say(line);
        for (int f = 0; f < 5; f++) {
            sprintf(line, "%13s |", FUNCTIONS[f]);
            for (int a = first; a < last; a++)
                for (int p = 0; p < 3; p++) {
                    int has = a == RING || (a == TREE && f == ALL_REDUCE) ||
                              (a == NVLS && p == 2 && f >= ALL_GATHER && getenv("STANDIN_NVLS"));
                    sprintf(line + strlen(line), "%8.1f/%6.1f |", 10.0, has ? 100.0 : 0.0);
                }
            say(line);
        }
    }
}

int ncclGetVersion(int *v) { *v = version(); return 0; }
int ncclGetUniqueId(Id *id) {
    const char *log = getenv("NCCL_DEBUG_FILE");
    snprintf(id->text, sizeof id->text, "stand-in %s.room", log ? log : "");
    return 0;
}
const char *ncclGetErrorString(int code) {
    return code == 6 ? "remote process exited or there was a network error"
                     : code == 5 ? "invalid usage" : "no error";
}
int ncclCommGetAsyncError(Comm *comm, int *state) { (void)comm; *state = told("STANDIN_FAULT") ? 6 : 0; return 0; }
const char *ncclGetLastError(Comm *comm) { (void)comm; return "socket closed by the peer\n"; }
int ncclMemAlloc(void **at, size_t bytes) { *at = malloc(bytes); return !*at; }
int ncclMemFree(void *at) { free(at); return 0; }
int ncclCommRegister(Comm *comm, void *at, size_t bytes, void **handle) {
    (void)comm, (void)bytes;
    *handle = at;
    say("registered a buffer");
    return 0;
}
int ncclCommAbort(Comm *comm) {
    if (comm->stream) standin_release(comm->stream);
    return 0;
}
int ncclGroupStart(void) { depth++; return 0; }

int ncclCommInitRank(Comm **comm, int ranks, Id id, int rank) {
    const char *shared = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    if (strncmp(id.text, "stand-in ", 9) || told("STANDIN_REFUSE")) return 5;
    strcpy(place, id.text + 9);
    for (int i = 0; i < members; i++)
        if (all[i]->gpu == standin_current() && !(shared && !strcmp(shared, "1"))) return 5;
    /* As NCCL does, only rank 0 says what it does. */
    if (!rank && getenv("NCCL_DEBUG_FILE")) {
        char line[256];
        out = fopen(getenv("NCCL_DEBUG_FILE"), "w");
        setlinebuf(out);
        sprintf(line, "NCCL version %d.%d.%d+cuda12.4", version() / 10000, version() % 10000 / 100,
                version() % 100);
        say(line);
        if (getenv("NCCL_ALGO")) {
            sprintf(line, "NCCL_ALGO set by environment to %s", getenv("NCCL_ALGO"));
            say(line);
        }
        sprintf(line, "comm 0x1 rank 0 nRanks %d nNodes 1 localRanks %d localRank 0 MNNVL 0", ranks, ranks);
        say(line);
        table();
    }
    *comm = calloc(1, sizeof **comm);
    (*comm)->rank = rank;
    (*comm)->ranks = ranks;
    (*comm)->gpu = standin_current();
    all[members++] = *comm;
    return 0;
}

static double cost(int f, int a, int p, double bytes, int n) {
    double others = n - 1, share = others / n;
    if (f == MESSAGES) return START[2] + STEP[2] + bytes / RATE[2];
    if (a == NVLS) return 12e-6 + (f == ALL_REDUCE ? 1 : share) * bytes / 150e9;
    double steps = f == ALL_REDUCE ? 2 * others : others;
    double moved = f == ALL_REDUCE ? (a == TREE ? (n == 2 ? 1 : 2) : 2 * share)
                                   : f >= ALL_GATHER ? share : 1;
    return START[p] + steps * STEP[p] + moved * bytes / RATE[p];
}

/* What it is told, if there is such a thing; else the cheapest ring. */
static void choose(int f, double bytes, int n, int *algo, int *proto) {
    const char *a = getenv("NCCL_ALGO"), *p = getenv("NCCL_PROTO");
    *algo = RING;
    *proto = 0;
    if (!a || !p) {
        for (int q = 1; q < 3; q++)
            if (cost(f, RING, q, bytes, n) < cost(f, RING, *proto, bytes, n)) *proto = q;
        return;
    }
    for (int q = 0; q < 3; q++)
        if (!strcmp(p, PROTO[q])) *proto = q;
    if (!strcmp(a, "Tree") && f == ALL_REDUCE) *algo = TREE;
    if (!strcmp(a, "NVLS") && *proto == 2) *algo = NVLS;
    if (told("STANDIN_FALLBACK")) *proto = 2;
}

static float brought(size_t i, int type) {
    float sum = 0;
    for (int r = 0; r < all[0]->ranks; r++) sum += number(sent[r], i, type);
    return sum;
}

static void carry_out(void) {
    Comm *first = all[0];
    int f = first->function, n = first->ranks, algo, proto;
    size_t count = first->count;
    int type = first->type, w = width(type);
    int blocks = f == ALL_GATHER || f == REDUCE_SCATTER || (f == MESSAGES && first->sends > 1) ? n : 1;
    double bytes = (double)w * count * blocks;
    char line[256];
    if (told("STANDIN_HANG")) for (;;) pause();
    if (told("STANDIN_ABORT")) {
        fprintf(stderr, "stand-in: no such way here\n");
        abort();
    }
    choose(f, bytes, n, &algo, &proto);
    /* Contents are made once: nobody looks at them again. */
    static int last = -1;
    static size_t last_count;
    static int last_type, last_sends;
    int again = f == last && count == last_count && type == last_type && first->sends == last_sends;
    last = f;
    last_count = count;
    last_type = type;
    last_sends = first->sends;
    for (int r = 0; r < members; r++) {
        Comm *c = all[r];
        size_t own = w * count * (f == ALL_GATHER ? 1 : blocks);
        if (room && !again) memcpy(room->sent[c->rank], c->send, own);
    }
    meet();
    for (int r = 0; r < n; r++) sent[r] = room ? room->sent[r] : all[r]->send;
    for (int r = 0; r < members; r++) {
        Comm *c = all[r];
        size_t whole = f == ALL_GATHER ? count * n : f == MESSAGES ? 0 : count;
        for (size_t i = 0; i < whole && !again; i++) switch (f) {
            case ALL_REDUCE: put(c->receive, i, type, brought(i, type)); break;
            case REDUCE: if (c->rank == c->root) put(c->receive, i, type, brought(i, type)); break;
            case BROADCAST: put(c->receive, i, type, number(sent[c->root], i, type)); break;
            case ALL_GATHER: put(c->receive, i, type, number(sent[i / count], i % count, type)); break;
            case REDUCE_SCATTER: put(c->receive, i, type, brought(c->rank * count + i, type)); break;
        }
        for (int m = 0; m < c->receives && !again; m++)
            memcpy(c->into[m], sent[c->from[m]] + (blocks > 1 ? w * count * c->rank : 0), w * count);
        c->receives = c->sends = 0;
        if (getenv("STANDIN_WRONG") && !again) put(c->receive, 0, type, number(c->receive, 0, type) + 1);
        if (told("STANDIN_FAULT")) standin_stall(c->stream);
        standin_spend(c->stream, cost(f, algo, proto, bytes, n));
    }
    meet();
    if (version() < 22000 || f == MESSAGES) return;
    if (version() < 22300)
        sprintf(line, "%.0f Bytes -> Algo %d proto %d time %f", bytes, algo, proto, 10.0);
    else if (version() < 22400)
        sprintf(line, "%s: %.0f Bytes -> Algo %d proto %d time %f", FUNCTIONS[f], bytes, algo, proto, 10.0);
    else
        sprintf(line, "%s: %zu Bytes -> Algo %s proto %s channel{Lo..Hi}={0..3}", FUNCTIONS[f],
                w * count, UPPER[algo], LOUD[proto]);
    say(line);
}

int ncclGroupEnd(void) {
    if (--depth) return 0;
    if (enter()) return 2;
    for (int i = 0; i < members; i++)
        if (!all[i]->ready) return 0;
    if (members) carry_out();
    for (int i = 0; i < members; i++) all[i]->ready = 0;
    return 0;
}

static int start(int f, const void *send, void *receive, size_t count, int type, int root, Comm *c,
                 void *stream) {
    if ((type != F32 && type != BF16) || standin_refuses(stream)) return 4;
    c->ready = 1;
    c->function = f;
    c->send = send;
    c->receive = receive;
    c->count = count;
    c->type = type;
    c->root = root;
    c->stream = stream;
    return 0;
}

int ncclAllReduce(const void *s, void *r, size_t n, int type, int op, Comm *c, void *stream) {
    (void)op;
    return start(ALL_REDUCE, s, r, n, type, 0, c, stream);
}
#ifndef OLD_NCCL
int ncclReduceScatter(const void *s, void *r, size_t n, int type, int op, Comm *c, void *stream) {
    (void)op;
    return start(REDUCE_SCATTER, s, r, n, type, 0, c, stream);
}
#endif
int ncclBroadcast(const void *s, void *r, size_t n, int type, int root, Comm *c, void *stream) {
    return start(BROADCAST, s, r, n, type, root, c, stream);
}
int ncclReduce(const void *s, void *r, size_t n, int type, int op, int root, Comm *c, void *stream) {
    (void)op;
    return start(REDUCE, s, r, n, type, root, c, stream);
}
int ncclAllGather(const void *s, void *r, size_t n, int type, Comm *c, void *stream) {
    return start(ALL_GATHER, s, r, n, type, 0, c, stream);
}
int ncclSend(const void *s, size_t n, int type, int to, Comm *c, void *stream) {
    (void)to;
    /* The first of a group has the lowest address. */
    int said = c->sends ? 0 : start(MESSAGES, s, c->receive, n, type, 0, c, stream);
    c->sends += !said;
    return said;
}
int ncclRecv(void *r, size_t n, int type, int from, Comm *c, void *stream) {
    if (!c->receives) c->receive = r;
    c->from[c->receives] = from;
    c->into[c->receives++] = r;
    (void)n, (void)type, (void)stream;
    return 0;
}
