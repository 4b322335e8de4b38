//! Logs of benchmarks are read or refused, without a crash: as they come, and behind the heading of
//! each format, so that rows are reached.
#![no_main]

use collcost::Collective;
use collcost::measure::logs::{Asked, look};
use libfuzzer_sys::fuzz_target;

/// What stands before rows, one a format; nothing for whole files, and JSON's first keys.
const HEADS: &[&str] = &[
    "",
    "# Collective test starting: all_gather_perf\n# nThread 1 nGpus 8 minBytes 8\n\
     # size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n",
    "# size count type redop time algbw busbw error time algbw busbw error\n",
    "# OSU MPI Allgather Latency Test v7.5\n# Size Avg Latency(us)\n",
    "# OSU MPI Bandwidth Test v5.8\n# Size Bandwidth (MB/s)\n",
    "# Benchmarking Alltoall\n# #processes = 4\n\
     #bytes #repetitions t_min[usec] t_max[usec] t_avg[usec]\n",
    "RDMA_Write BW Test\n#bytes #iterations BW peak[MB/sec] BW average[MB/sec] MsgRate[Mpps]\n",
    "nccom-test -r 4 allg\nsize(B) count(elems) type time:avg(us) algbw(GB/s) busbw(GB/s)\n",
    "collective,n_ranks,bytes,time_us\n",
    "{\"args\":[\"all_reduce_perf\"],\"config\":{\"ngpus\":8,\"devices\":[{\"rank\":0}]},\"results\":[",
];

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let head = HEADS[usize::from(first & 15) % HEADS.len()];
    let ranks = [None, Some(1), Some(8), Some(u32::MAX)][usize::from(first >> 4) % 4];
    let collective = (first >> 6 == 1).then_some(Collective::AllToAll);
    let text = [head.as_bytes(), rest].concat();
    match look(text.as_slice(), "file", &Asked { ranks, collective, ..Asked::default() }) {
        Ok(log) => {
            for table in &log.tables {
                assert_eq!(table.rows.is_empty(), table.refused.is_some());
            }
            let samples = log.samples();
            assert!(samples.blocks.iter().all(|b| b.samples[0].span.0 > 0.0));
            assert!(collcost::answer::import::measurements(&log).count() >= samples.blocks.len());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
