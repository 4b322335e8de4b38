//! Every kind of file that the command reads: how it is asked to, and a small one that it accepts.

/// A small file of a kind, from which larger and worse ones are made.
#[derive(Clone, Copy)]
pub enum Seed {
    /// Of this repository.
    File(&'static str),
    /// What the command writes.
    Said(&'static str),
    Text(&'static str),
}

/// A kind of input. `FILE` in its words stands for the file, `<` at their end for standard input.
pub struct Kind {
    pub name: &'static str,
    pub words: &'static str,
    pub seed: Seed,
}

const fn kind(name: &'static str, words: &'static str, seed: Seed) -> Kind {
    Kind { name, words, seed }
}

use Seed::{File, Said, Text};

pub const KINDS: &[Kind] = &[
    kind("profile", "profiles check FILE", Said("profiles show dgx-h100 --format toml")),
    kind(
        "profile, asked",
        "allreduce -n 16 --on FILE",
        Said("profiles show dgx-h100 --format toml"),
    ),
    kind("budgets", "check FILE", File("budgets/collcost.toml")),
    kind("budgets, two", "check FILE --against OTHER", File("budgets/collcost.toml")),
    kind("steps", "plan FILE", File("plans/own.toml")),
    kind("job", "plan FILE", File("jobs/llama3-70b.toml")),
    kind("jobs", "plan FILE", File("jobs/two.toml")),
    kind("arguments", "plan FILE", File("jobs/train.sh")),
    kind("serving", "plan FILE", File("jobs/serve.sh")),
    kind("config.json", "plan FILE", Text(CONFIG)),
    kind("questions", "batch <", Text(QUESTIONS)),
    kind("requests", "mcp <", Text(REQUESTS)),
    kind("nccl-tests", "import FILE", File("logs/all_reduce.txt")),
    kind("nccl-tests, fit", "fit FILE", File("logs/all_reduce.txt")),
    kind("nccl-tests, judged", "compare FILE --on dgx-h100", File("logs/all_reduce.txt")),
    kind("nccl-tests, JSON", "import FILE", File("logs/reduce_scatter.json")),
    kind("rccl-tests", "import FILE", File("logs/rccl.txt")),
    kind("OSU", "import FILE", File("logs/osu_allreduce.txt")),
    kind("OSU, fit", "fit FILE", File("logs/osu_p2p.txt")),
    kind("IMB", "import FILE", File("logs/imb.txt")),
    kind("perftest", "import FILE", File("logs/ib_write_bw.txt")),
    kind("nccom-test", "import FILE", File("logs/nccom.txt")),
    kind("CSV", "import FILE", File("logs/measured.csv")),
    kind("DeepSpeed", "import FILE", Text(DEEPSPEED)),
    kind("all_reduce_bench", "import FILE", Text(BENCH)),
    kind("mscclpp", "import FILE", Text(MSCCLPP)),
    kind("Gloo", "import FILE -n 2", Text(GLOO)),
    kind("HCCL", "import FILE -n 8 --collective allreduce", Text(HCCL)),
    kind("PARAM", "import FILE -n 8", Text(PARAM)),
    kind("Inspector", "import FILE", Text(INSPECTOR)),
    kind("Kineto", "import FILE", Text(KINETO)),
    kind("flight recorder", "import FILE", Text(RECORDER)),
    kind("flight recorder, pickle", "import FILE", Text("")),
    kind("Nsight Systems", "import FILE", Text("")),
    kind("samples", "fit FILE", File("gpu/cuda.samples.jsonl")),
    kind("accuracy", "accuracy FILE", File("made_up_times.csv")),
    kind("MSCCL", "verify --schedule FILE", Said("export msccl allreduce ring -n 4")),
    kind("GOAL", "verify --schedule FILE", Said("export goal allreduce ring -n 4")),
    kind("events", "verify --schedule FILE", Said("trace allreduce ring -n 4 --events")),
    kind(
        "events, simulated",
        "simulate --schedule FILE 1MiB",
        Said("trace allreduce ring -n 4 --events"),
    ),
    kind(
        "numbers",
        "trace allreduce ring -n 4 --data FILE",
        Text("1,2,3,4\n5,6,7,8\n1,2,3,4\n9,8,7,6\n"),
    ),
    kind("fabric", "optimum allgather --fabric FILE", File("fabrics/two_boxes.toml")),
    kind("fabric, generated", "optimum allgather --fabric FILE", Text(GENERATED)),
    kind("fabric, ASTRA-sim", "optimum allgather --fabric FILE", Text(ASTRA)),
    kind("fabric, ns-3", "optimum allgather --fabric FILE", Text(NS3)),
    kind("fabric, hwloc", "optimum allgather --fabric FILE", File("fabrics/hwloc.xml")),
    kind("fabric, InfraGraph", "optimum allgather --fabric FILE", File("fabrics/infragraph.yaml")),
    kind(
        "jobs on a fabric",
        "simulate --fabric tests/data/fabrics/two_boxes.toml --jobs FILE",
        File("fabrics/jobs.json"),
    ),
    kind(
        "NCCL's topology",
        "nccl graph --topo FILE --nodes 2",
        File("nccl_topologies/two-sockets.xml"),
    ),
    kind(
        "NCCL's graphs",
        "nccl choose allreduce 1MiB --graph FILE --nodes 2 --gpu h100",
        File("nccl_graphs_small.xml"),
    ),
    kind("NCCL's log", "nccl log FILE", File("nccl_logs/h100-2x8.log")),
    kind("NCCL's communicators", "nccl choose allreduce --comms FILE", File("nccl_comms.csv")),
    kind(
        "NCCL's questions",
        "nccl replay --comms tests/data/nccl_comms.csv <",
        Text(NCCL_QUESTIONS),
    ),
    kind(
        "NCCL's tuner file",
        "choose rules-file:FILE allreduce -n 16 --on dgx-h100",
        File("nccl_tuner_switch_point.csv"),
    ),
    kind("Open MPI's rules", "choose rules-file:FILE allreduce -n 16 --on dgx-h100", Text(RULES)),
    kind(
        "MPICH's rules",
        "choose rules-file:FILE allreduce -n 16 --on dgx-h100",
        Said("export mpich-json allreduce -n 8 --on dgx-a100"),
    ),
    kind(
        "parameters",
        "bucket --params FILE -n 8 --backward 10ms",
        File("parameters/resnet18.json"),
    ),
    kind("settings", "config", Text(SETTINGS)),
    kind(
        "a seen log",
        "allreduce -n 8 --nodes 2 --on dgx-a100 --seen FILE",
        File("logs/all_reduce.txt"),
    ),
];

const CONFIG: &str = r#"{"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
"num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "vocab_size": 128256,
"max_position_embeddings": 8192, "model_type": "llama", "tie_word_embeddings": false}
"#;

const QUESTIONS: &str = r#"{"id":"1","kind":"cost","primitive":"allreduce","algorithm":"ring","n":64,"size_bytes":16777216,"alpha_s":1e-6,"bw_Bps":1e11}
{"id":"2","kind":"simulate","primitive":"allreduce","algorithm":"ring","n":8,"size_bytes":1024,"alpha_s":1e-6,"bw_Bps":1e9,"mode":"flow"}
{"id":"3","kind":"choose","collective":"allreduce","n":16,"profile":"dgx-h100","size_bytes":"16MiB","library":"nccl"}
{"id":"4","kind":"compare","collective":"allreduce","n":8,"profile":"dgx-a100","size_bytes":"1GiB","busbw_Bps":2e11}
{"id":"5","kind":"explain","collective":"allreduce","algorithm":"ring"}
"#;

const NCCL_QUESTIONS: &str = "id,version,env,pipeops,collective,nbytes
dgx_h100_8x400g.p8.n2,2.27.3,,1,AllReduce,1048576
dgx_h100_8x400g.p8.n2,2.30.7,,4,AllGather,65536
\"dgx_h100_8x400g.p8.n2\",2.18.3,,1,Broadcast,8
";

const REQUESTS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"expect","arguments":{"collective":"allreduce","n":64,"size":"16MiB","profile":"dgx-h100"}}}
{"jsonrpc":"2.0","id":3,"method":"tools/list"}
"#;

const DEEPSPEED: &str = "\
Comm. Op            Message Size        Count               Total Latency(ms)   Avg Latency(ms)     tput_avg (Gbps)     busbw_avg (Gbps)
all_reduce
                    64.0 MB             30                  14.76               0.49                2182.40             1909.60
all_gather_into_tensor
                    8.0 MB              60                  9.06                0.15                3555.44             3111.01
";

const BENCH: &str = "\
The average bandwidth of all_reduce over 16 ranks (5 warmups / 20 trials):

| payload |    busbw   |    algbw   |
| ------: | ---------: | ---------: |
|   32KiB |   1.37GBps |   0.73GBps |
|    1GiB | 376.41GBps | 200.75GBps |
";

const MSCCLPP: &str = r#"{"name": "allreduce", "kernel": 6, "ranks": 8, "ranksPerNode": 8, "size": 1024, "time": 5.1, "algBw": 0.19, "busBw": 0.34}
{"name": "allreduce", "kernel": 6, "ranks": 8, "ranksPerNode": 8, "size": 1048576, "time": 12.6, "algBw": 82.9, "busBw": 145.1}
"#;

const GLOO: &str = "\
                                                   ALLREDUCE_RING_CHUNKED

Device:             tcp, pci=0000:01:00.0, iface=eth0, speed=25000, addr=[10.1.0.1]
Options:            processes=2, inputs=1, threads=1, verify=true

   size (B)   elements   min (us)   p50 (us)   p99 (us)   max (us)      bandwidth (GB/s)   iterations
        400        100         54         60         96        145                 0.006          500
    4000000    1000000       1433       1500       1600       1700                 2.600          500
";

const HCCL: &str = "\
the minbytes is 8192, maxbytes is 67108864, iters is 20, warmup_iters is 5
data_size(Bytes): | aveg_time(us):  | alg_bandwidth(GB/s): | check_result:
8192              | 20.85           | 0.39282              | success
67108864          | 799.34          | 83.95505             | success
";

const PARAM: &str = "
\tCOMMS-RES-all_reduce-float32total-size (B)  nElementsPerRank      Time(us):p50         p75         p95         Min         Max    AlgBW(GB/s) BusBW(GB/s) TotalTime(us):p50
\tCOMMS-RES-all_reduce-float32              4096              1024              22.1        23.0        24.6        21.2        26.6          0.185       0.324                 0.0
";

const INSPECTOR: &str = r#"{"header": {"id": "0x5b", "rank": 0, "n_ranks": 2, "nnodes": 1}, "metadata": {"hostname": "a"}, "coll_perf": {"coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 4096, "coll_exec_time_us": 100, "coll_timing_source": "kernel_gpu"}}
{"header": {"id": "0x5b", "rank": 1, "n_ranks": 2, "nnodes": 1}, "metadata": {"hostname": "a"}, "coll_perf": {"coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 4096, "coll_exec_time_us": 120, "coll_timing_source": "kernel_gpu"}}
"#;

const KINETO: &str = r#"{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4}, "traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 4100, "tid": 4100, "ts": 965.9, "dur": 21.0, "args": {"Collective name": "allreduce", "In msg nelems": 33554432, "Out msg nelems": 33554432, "Group size": 4, "dtype": "BFloat16", "In split size": "[]", "Out split size": "[]", "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1, 2, 3]", "Seq": 1, "External id": 100, "Rank": 0}},
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "pid": 0, "tid": 28, "ts": 1000.0, "dur": 400.0, "args": {"External id": 100, "correlation": 7, "stream": 28, "Collective name": "allreduce", "In msg nelems": 33554432, "Out msg nelems": 33554432, "Group size": 4, "dtype": "BFloat16", "Process Group Name": "0", "Process Group Ranks": "[0, 1, 2, 3]", "Seq": 1}}
]}
"#;

const RECORDER: &str = r#"{"version": "2.4", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, "pg_status": {}, "entries": [
{"record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1, "profiling_name": "nccl:all_reduce", "time_created_ns": 1790000000000002443, "input_sizes": [[67108864]], "input_dtypes": ["BFloat16"], "output_sizes": [[67108864]], "output_dtypes": ["BFloat16"], "state": "completed", "duration_ms": 1.5, "retired": true, "is_p2p": false}
]}
"#;

const GENERATED: &str =
    "name = \"a\"\n[generate]\nkind = \"torus\"\nsides = [4, 4]\nbw = \"50GB/s\"\n";

const ASTRA: &str = "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 400.0, 50.0 ]\nlatency: [ 500.0, 1000.0 ]\n";

const NS3: &str = "6 2 5\n4 5\n0 4 400Gbps 0.0005ms 0\n1 4 400Gbps 0.0005ms 0\n2 5 400Gbps 0.0005ms 0\n3 5 400Gbps 0.0005ms 0\n4 5 400Gbps 0.0005ms 0\n";

const RULES: &str = "\
1 # collectives
2 # allreduce
1 # communicators
16 # ranks
3 # rules
0 3 0 0
4096 4 0 0
1048576 5 0 131072
";

const SETTINGS: &str = "\
[machine]
profile = \"dgx-h100\"
[defaults]
n = 16
[[budget]]
name = \"a\"
collective = \"allreduce\"
size = \"1MiB\"
max_time = \"1ms\"
";
