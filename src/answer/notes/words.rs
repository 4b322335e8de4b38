//! The words that screens print, each with one meaning: `collcost explain WORD`.

/// A word with its meaning.
#[derive(Debug)]
pub struct Word {
    /// As screens print it; the first is the entry's title.
    pub names: &'static [&'static str],
    /// What it means, with its unit.
    pub means: &'static str,
    /// A command that shows more, after `collcost`.
    pub next: &'static str,
}

const fn is(names: &'static [&'static str], means: &'static str, next: &'static str) -> Word {
    Word { names, means, next }
}

/// The meaning of `name`; labels are looked up as printed, in upper or lower case.
#[must_use]
pub fn meaning(name: &str) -> Option<&'static Word> {
    let plain = name.trim_end_matches(['?', ':', '*']).trim().to_lowercase();
    WORDS.iter().find(|w| w.names.iter().any(|n| n.to_lowercase() == plain))
}

/// All of them, in the order in which a user meets them.
pub static WORDS: &[Word] = &[
    is(
        &["expected", "expectation", "expect"],
        "The time that the call is expected to take as the library really runs it, launch \
         included. It is a median: half of real runs are expected below it.",
        "explain busbw",
    ),
    is(
        &["8 of 10 runs", "band", "low", "high", "8 of 10", "p10", "p90"],
        "The range from the 10th to the 90th percentile of real runs: 8 of 10 lie inside. Its \
         width is the error that predictions of this kind had on held-out measurements.",
        "accuracy --help",
    ),
    is(
        &["runs", "runs as", "what runs"],
        "The algorithm, protocol and channels that the machine's library picks for this call, by its own rules where they are known.",
        "choose nccl allreduce -n 64",
    ),
    is(
        &["known from", "basis"],
        "The basis of the expected time: measured on this machine, on the same board elsewhere \
         or one of its generation, transferred from other machines, or modelled; with its error on held-out data.",
        "accuracy --help",
    ),
    is(
        &["held-out error", "held-out", "held out", "off", "|error|", "median / p90"],
        "The error of predictions on measurements that were left out when they were made: \
         |predicted/measured − 1|, median and 90th percentile.",
        "accuracy --help",
    ),
    is(
        &["better", "fastest other"],
        "Whether another algorithm is expected to be faster beyond the bands of both; if not, no \
         other algorithm is certainly faster.",
        "choose --help",
    ),
    is(
        &["ideal", "ideal time", "ideal price", "ideal cost"],
        "The time of a schedule in the α-β model on the machine's links, without any other load: \
         n_α·α + n_β·M/BW and the launch. Most real runs take longer: of 10 published times of NCCL, \
         8 are between half of it and twice as much.",
        "explain terms",
    ),
    is(
        &["lowest ideal time", "lowest ideal", "least ideal"],
        "The lowest α-β time of all algorithms that apply, whether or not a library has them.",
        "explain bound",
    ),
    is(
        &["× bound", "x bound"],
        "The ideal time over the lower bound: 1.0 is optimal on these links.",
        "explain bound",
    ),
    is(
        &["algorithm", "algorithms"],
        "A schedule of messages that performs the collective; `collcost list algorithms` names all.",
        "list algorithms",
    ),
    is(
        &["steps", "step"],
        "Messages that follow one another on the longest path of the schedule; each pays α once.",
        "explain regimes",
    ),
    is(
        &["switch point", "switch points", "switch points of nccl"],
        "The size at which a library changes algorithm or protocol, or at which another algorithm becomes the fastest.",
        "crossover --help",
    ),
    is(&["next"], "A command that continues from this screen.", "--help"),
    is(&["note", "notes"], "Something to know before trusting the numbers above it.", "--help"),
    is(
        &["channel", "channels"],
        "Parallel copies of a ring or tree in NCCL, each with its own thread block and slice of the data.",
        "nccl choose --help",
    ),
    is(
        &["protocol", "protocols"],
        "How NCCL moves data: LL (8 bytes with a flag), LL128 (128 bytes with flags) or Simple (large chunks with fences).",
        "nccl choose --help",
    ),
    is(
        &["LL"],
        "NCCL's low-latency protocol: each 8-byte store carries 4 bytes of data and a flag, so at most half the bandwidth.",
        "nccl choose --help",
    ),
    is(
        &["LL128"],
        "NCCL's protocol with 120 bytes of data in each 128-byte store over NVLink: low latency at about 94 % of the bandwidth.",
        "nccl choose --help",
    ),
    is(
        &["Simple"],
        "NCCL's bandwidth protocol: large chunks, synchronised by fences.",
        "nccl choose --help",
    ),
    is(
        &["threads"],
        "CUDA threads per block that NCCL starts for a channel.",
        "nccl choose --help",
    ),
    is(
        &["upper bound", "≤"],
        "The schedule takes at most this time; how much less is not known in closed form.",
        "explain frontier",
    ),
    is(
        &["rate", "reached", "carries"],
        "Bytes per second; GB/s are 10^9 bytes, Gb/s are 10^9 bits.",
        "explain units",
    ),
    is(&["BW"], "Rate of one port, one way, in bytes per second.", "explain links"),
    is(&["α"], "Time of an empty message over one link.", "explain terms"),
    is(&["β", "slope"], "Time per byte over one port: 1/BW.", "explain terms"),
    is(&["γ"], "Time to reduce one byte.", "explain terms"),
    is(
        &["NIC MiB per port", "NIC MiB"],
        "Bytes of the busiest NIC port in each step, summed over the steps; MiB are 2^20 bytes.",
        "explain nics",
    ),
    is(
        &["bytes", "by step", "total"],
        "Bytes that the call or schedule moves; MiB are 2^20 bytes.",
        "explain sizes",
    ),
    is(
        &["size", "sizes"],
        "Bytes of the call as nccl-tests counts them, unless --size-is says otherwise.",
        "explain sizes",
    ),
    is(
        &["ranks", "rank"],
        "A process of the job, usually one GPU; N of them take part.",
        "explain terms",
    ),
    is(&["nodes", "N between"], "Hosts; ranks on one node share its inner links.", "explain nics"),
    is(
        &["time", "takes"],
        "Seconds from the start of the call on all ranks to its end on the last.",
        "explain terms",
    ),
    is(&["measured"], "A time measured in a real run, as the source states it.", "accuracy --help"),
    is(
        &["machine", "machines"],
        "A profile: links with α and BW, the library, ranks per node; `collcost profiles` lists them.",
        "profiles --help",
    ),
    is(
        &["source", "how", "it says"],
        "Where a value comes from: datasheet, vendor, paper, fitted, measured or assumed.",
        "profiles show dgx-h100",
    ),
    is(
        &["links", "tier", "type", "types"],
        "Kinds of links from the inside out: memory, node, network; each has α and BW.",
        "explain links",
    ),
    is(
        &["in band"],
        "The share of measured times between low and high; 80 % is right for a band of 8 of 10.",
        "accuracy --help",
    ),
    is(
        &["× lowest", "x least", "× least", "ratio", "second/first"],
        "A time divided by the least of its column.",
        "choose --help",
    ),
    is(
        &["× choice", "x choice"],
        "An expected time divided by that of the library's choice.",
        "choose --help",
    ),
    is(
        &["margin"],
        "How much longer the second-best choice would take by the library's own estimate, in percent.",
        "nccl choose --help",
    ),
    is(
        &["its time", "second"],
        "The library's own estimate of its choice, and the next best in its table.",
        "nccl choose --help",
    ),
    is(
        &["collective", "collectives", "operation"],
        "An operation of all ranks: all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, reduce, scatter, gather, send/recv, barrier.",
        "explain collectives",
    ),
    is(
        &["from", "to"],
        "The ends of a range. Where sizes vary freely (`crossover`, a call without a size) the next range begins at \
         the end; of `nccl choose`, and of ranks, the last is included.",
        "crossover --help",
    ),
    is(&["signed", "error"], "Predicted over measured minus 1, with its sign.", "accuracy --help"),
    is(&["high/low"], "The upper end of a band over its lower end.", "accuracy --help"),
    is(
        &["points", "point"],
        "Measured times, each an operation with ranks and a size.",
        "import --help",
    ),
    is(
        &["clusters", "machines and logs"],
        "Machines whose measurements are published and used here.",
        "accuracy --help",
    ),
    is(
        &["expected there", "ideal there", "the default there"],
        "The same answer on the points of this row.",
        "accuracy --help",
    ),
    is(
        &["one seen"],
        "The error after one measured time of the series was given with --seen.",
        "accuracy --help",
    ),
    is(
        &["exposed"],
        "Communication time that no computation hides, and which therefore adds to the step.",
        "plan --help",
    ),
    is(&["bucket", "buckets"], "Gradients that share one call.", "bucket --help"),
    is(&["cap"], "The size at which a bucket is closed.", "bucket --help"),
    is(&["closed at"], "When the last gradient of a bucket is ready.", "bucket --help"),
    is(&["tensors"], "Gradients in a bucket.", "bucket --help"),
    is(&["calls"], "Collective calls per step.", "plan --help"),
    is(&["compute"], "Time of the step's arithmetic without communication.", "plan --help"),
    is(
        &["layout"],
        "How ranks are divided: data (dp), tensor (tp), pipeline (pp), context (cp) and expert (ep) parallel.",
        "plan --help",
    ),
    is(
        &["memory"],
        "Bytes on the fullest GPU: parameters, gradients, optimizer, activations, buffers.",
        "plan --help",
    ),
    is(
        &["MFU"],
        "Model FLOPs utilisation: the operations of the model's products forward and backward, with \
         attention over the half of the scores that a causal mask keeps and without recomputation, \
         over the GPU's dense 16-bit peak, also where products are in fp8.",
        "plan --help",
    ),
    is(
        &["recompute"],
        "Activations computed again in the backward pass instead of kept.",
        "plan --help",
    ),
    is(
        &["micro", "micro-batch"],
        "Sequences that go through the pipeline together.",
        "plan --help",
    ),
    is(&["GPU-hours"], "GPUs times hours of a step.", "plan --help"),
    is(
        &["weighs"],
        "By how many percent a time changes when a parameter changes by 1 %.",
        "plan --help",
    ),
    is(
        &["job"],
        "A collective or a program on a fabric, with its start and what it waits for.",
        "simulate --help",
    ),
    is(
        &["budget", "budgets"],
        "A limit in a file, on time, bandwidth or another figure, that `collcost check` compares \
         with the expectation.",
        "check --help",
    ),
    is(
        &["holds", "fails", "at risk"],
        "A budget holds when the worse end of the band is inside the limit, fails when even the better end is outside, and is at risk between.",
        "check --help",
    ),
    is(&["limit"], "The value that a budget allows.", "check --help"),
    is(
        &["verdict"],
        "healthy, ill or cannot tell: measured times compared with the band of healthy machines.",
        "compare --help",
    ),
    is(
        &["cause"],
        "What would explain the measured times, the most likely first.",
        "compare --help",
    ),
    is(&["health"], "How likely the times are on a healthy machine.", "compare --help"),
    is(
        &["term", "launch", "latency", "bandwidth"],
        "A part of the ideal time: the launch, n_α·α, or n_β·M/BW.",
        "explain latency",
    ),
    is(&["share"], "A term's part of the whole, in percent.", "explain regimes"),
    is(&["slots"], "Steps of a pipeline: filling it and one per segment.", "explain pipeline"),
    is(
        &["P", "segments"],
        "Segments of a pipeline; more cost latency, fewer leave links idle.",
        "explain pipeline",
    ),
    is(&["n_α"], "Messages one after another.", "explain terms"),
    is(&["n_β"], "Vectors through the busiest port.", "explain terms"),
    is(&["makespan"], "Time until the last job has finished.", "simulate --help"),
    is(
        &["start", "starts", "finish", "ends", "end"],
        "When something begins or ends, counted from the start of the first.",
        "simulate --help",
    ),
    is(
        &["waited for"],
        "What a message could not start without: data, a port, or its rank.",
        "simulate --help",
    ),
    is(
        &["bound"],
        "The least time that any algorithm takes on these links through the ports of a rank, one \
         message out and one in at a time unless `--ports` says otherwise, after the launch of a \
         call. A kernel that writes to all peers at once can be below it at small sizes.",
        "explain bound",
    ),
    is(
        &["best rate", "cut", "lengths", "proof"],
        "The highest rate of a collective on a fabric, and the cut or link lengths that prove that no schedule exceeds it.",
        "optimum --help",
    ),
    is(
        &["rounds", "round", "rounds per chunk"],
        "Time units of a schedule in which each link carries a chunk per unit of its rate.",
        "optimum --help",
    ),
    is(&["chunks"], "Equal parts of a vector that a schedule moves.", "trace --help"),
    is(
        &["children", "parent"],
        "The neighbours of a rank in a tree, away from and towards its root.",
        "explain names",
    ),
    is(
        &["parameter", "setting", "settings"],
        "A value that a question, a profile or a variable gives; `collcost config` shows where each comes from.",
        "config",
    ),
    is(
        &["force"],
        "The variables or options that make the library run something else.",
        "choose --help",
    ),
    is(
        &["the library's name", "library", "name"],
        "What the library calls the algorithm, as its variables and logs write it.",
        "list algorithms",
    ),
    is(
        &["schedule"],
        "The algorithm in collcost that sends the same messages as what runs.",
        "trace --help",
    ),
    is(
        &["estimate", "its own estimate"],
        "The time that the library itself expects, from the numbers that it decides by.",
        "choose --help",
    ),
    is(&["to try"], "Settings that select another algorithm, to be measured.", "choose --help"),
    is(&["instead"], "What would have run, and why it does not.", "choose --help"),
    is(&["rule"], "The line of the library's own rules that decided.", "choose --help"),
    is(
        &["use", "used"],
        "What a call really uses when it runs alone, as the log prints it.",
        "nccl choose --help",
    ),
    is(
        &["graph"],
        "The rings or trees that NCCL's search finds on a topology.",
        "nccl graph --help",
    ),
    is(
        &["crossNic"],
        "Whether a ring may leave a node by one NIC and enter the next by another.",
        "nccl graph --help",
    ),
    is(
        &["communicator"],
        "The ranks, nodes and graphs that NCCL decides for. `--comm MACHINE.pRANKS.nNODES` names a \
         built-in one, such as dgx_h100_8x400g.p8.n2; where the machine is not known, the error lists \
         those that are.",
        "nccl choose --help",
    ),
    is(
        &["quiet"],
        "The share of blocks in which no other process took the CPUs.",
        "calibrate --help",
    ),
    is(
        &["gates", "gate"],
        "Conditions that measurements meet before a profile is written or marked.",
        "calibrate --help",
    ),
    is(
        &["fitted"],
        "Parameters with the least sum of absolute relative errors on measured times.",
        "fit --help",
    ),
    is(&["95 %"], "An interval that holds the true value in 95 of 100 repetitions.", "fit --help"),
    is(
        &["samples"],
        "Single timed runs, as `calibrate` writes and `fit` reads them.",
        "fit --help",
    ),
    is(&["knots"], "Sizes at which the slope of a measured curve changes.", "fit --help"),
    is(
        &["backend", "kernel", "engine", "other engines"],
        "What an inference engine runs for a collective: its own kernel or the library.",
        "choose --help",
    ),
    is(
        &["regret"],
        "The ideal time of what is picked over the lowest ideal time of all algorithms.",
        "choose --help",
    ),
    is(&["not for this call"], "Why a path was not taken.", "choose --help"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_has_two_meanings() {
        let mut seen = std::collections::BTreeSet::new();
        for name in WORDS.iter().flat_map(|w| w.names) {
            assert!(seen.insert(name.to_lowercase()), "{name} twice");
        }
    }
}
