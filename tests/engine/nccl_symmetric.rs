//! Symmetric kernels of 2.27 to 2.30 against NVIDIA's own pickers.
//!
//! The rows of `tests/data/nccl_symmetric_kernels.csv.gz` are what the functions of NVIDIA/nccl that
//! pick a kernel (`src/symmetric.cc` of 2.27, `src/sym_kernels.cc` from 2.28 on), compiled alone
//! without a GPU, answered for communicators of known and of random machines: the kernel, its blocks
//! and its time, or nothing.

use std::collections::HashMap;

use collcost::answer::batch::nccl::Replay;
use collcost::answer::nccl::{Choose, Question, choose};
use collcost::base::dtype::DataType;
use collcost::base::quantity::Bytes;
use collcost::library::nccl::comms;
use collcost::library::nccl::cost_model::{CostModel, Windows};
use collcost::library::nccl::topology::Knobs;
use collcost::library::nccl::{
    Call, Communicator, Function, Operation, Place, Reduction, Settings, Version, float,
};

use crate::gzip::inflate;

fn release(tag: &str) -> Version {
    tag.parse().expect(tag)
}

#[test]
fn kernels_are_those_of_the_release() {
    let text = inflate(include_bytes!("../data/nccl_cost_model_communicators.csv.gz"));
    let comms: HashMap<String, _> =
        comms::read(&text).unwrap().into_iter().map(|named| (named.id, named.comm)).collect();
    let rows = inflate(include_bytes!("../data/nccl_symmetric_kernels.csv.gz"));
    let mut differ = Vec::new();
    for line in rows.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let reduction =
            Reduction { element: fields[4].parse().expect(line), ..Reduction::default() };
        let settings = Settings::default();
        let model =
            CostModel::new(&comms[fields[0]], release(fields[1]), &settings, reduction).unwrap();
        let call = Call {
            function: Function::named(fields[2]).expect(line),
            size: Bytes(fields[3].parse().expect(line)),
            pipelined: 1,
        };
        let ours = model.among_kernels(&call).map_or(",,".to_owned(), |best| {
            let time = float(best.time().expect(line).0);
            let kernel = best.candidate.name(release(fields[1]));
            format!("{kernel},{},{time}", best.channels)
        });
        if ours != fields[5..].join(",") {
            differ.push(format!("{line}: {ours}"));
        }
    }
    let all = rows.lines().count() - 1;
    assert!(differ.is_empty(), "{} of {all}: {:#?}", differ.len(), &differ[..differ.len().min(20)]);
    assert!(all > 2000, "{all}");
}

fn best(version: &str, settings: &str, reduction: Reduction, function: Function) -> Option<String> {
    let comm = Place::named("dgx_b200_8x400g.p8.n1").unwrap().communicator().unwrap();
    let settings = Settings::read(settings).unwrap();
    let model = CostModel::new(&comm, release(version), &settings, reduction).unwrap();
    let best = model.on_windows(&Call { function, size: Bytes(64 << 20), pipelined: 1 })?;
    Some(best.candidate.name(release(version)).into_owned())
}

#[test]
fn what_kernels_do_and_how_they_are_named_changes() {
    let sum = Reduction::default();
    let average = Reduction { operation: Operation::Scaled, ..sum };
    assert_eq!(best("2.29.7", "", average, Function::AllReduce), None);
    assert!(best("2.30.3", "", average, Function::AllReduce).is_some());
    let doubles = Reduction { element: DataType::F64, ..sum };
    assert_eq!(best("2.30.3", "", doubles, Function::AllReduce), None);
    // One name, and nothing where it is none; since 2.31 a list.
    let named = |version: &str, settings: &str| best(version, settings, sum, Function::AllReduce);
    let ld = "AllReduce_RSxLD_AGxST";
    assert_eq!(named("2.28.3", &format!("NCCL_SYM_KERNEL={ld}")).as_deref(), Some(ld));
    assert_eq!(named("2.28.3", "NCCL_SYM_KERNEL=bogus"), None);
    assert_eq!(named("2.28.3", "NCCL_SYM_KERNEL=^"), named("2.28.3", ""));
    // Algorithms that are named leave kernels alone until 2.31.
    assert!(named("2.30.7", "NCCL_ALGO=Ring").is_some());
    assert_eq!(named("2.31.2", "NCCL_ALGO=Ring"), None);
    // Blocks by the GPU's own engine are asked for.
    let tma = Some("AllReduce_RSxTmaLD_AGxTmaST".to_owned());
    let only = "NCCL_SYM_KERNEL=AllReduce_RSxTmaLD_AGxTmaST";
    assert_eq!(named("2.30.3", only), None);
    assert_eq!(named("2.30.3", &format!("{only} NCCL_SYM_TMA_ENABLE=1")), tma);
    assert_eq!(named("2.29.7", &format!("{only} NCCL_SYM_TMA_ENABLE=1")), None);
}

/// v2.29.2-1 to v2.30.7-1 `src/enqueue.cc`, `taskAppend`: on Blackwell an all-gather of more than 8 Mi elements a
/// rank goes to the copy engines before the picker is asked.
#[test]
fn large_gathers_are_copied_on_blackwell() {
    let taken = |machine: &str, version: &str, settings: &str, size: u64| {
        let comm = Place::named(machine).unwrap().communicator().unwrap();
        let settings = Settings::read(settings).unwrap();
        let reduction = Reduction { element: DataType::Bf16, ..Reduction::default() };
        let model = CostModel::new(&comm, release(version), &settings, reduction).unwrap();
        let call = Call { function: Function::AllGather, size: Bytes(size), pipelined: 1 };
        let best = model.on_windows(&call).unwrap();
        (best.candidate.name(release(version)).into_owned(), best.time().is_some())
    };
    let (b200, h100) = ("dgx_b200_8x400g.p8.n1", "dgx_h100_8x400g.p8.n1");
    let (border, kernel) = (128 << 20, ("AllGather_STMC".to_owned(), true));
    for version in ["2.29.2", "2.29.7", "2.30.7"] {
        // No release before 2.31 says how long they take.
        let copied = ("AllGather_UC".to_owned(), false);
        assert_eq!(taken(b200, version, "", border), kernel, "{version}");
        assert_eq!(taken(b200, version, "", border + 16), copied, "{version}");
        assert_eq!(taken(b200, version, "NCCL_SYM_CE_THRESHOLD=1024", 1 << 20), copied);
        assert_eq!(taken(h100, version, "", 1 << 30), kernel, "{version}");
    }
    assert_eq!(taken(b200, "2.28.9", "", 1 << 30), kernel);
}

/// v2.30.7-1 `src/misc/param.cc` (base 0), `src/enqueue.cc` (a count without a sign), `src/sym_kernels.cc`.
#[test]
fn variables_of_kernels_are_read_as_nccl_reads_them() {
    let taken = |place: &str, version: &str, settings: &str, (function, size)| {
        let comm = Place::named(place).unwrap().communicator().unwrap();
        let settings = Settings::read(settings).unwrap();
        let model =
            CostModel::new(&comm, release(version), &settings, Reduction::default()).unwrap();
        let best = model.on_windows(&Call { function, size: Bytes(size), pipelined: 1 })?;
        Some((best.candidate.name(release(version)).into_owned(), best.channels, best.time()))
    };
    let gather = (Function::AllGather, 1 << 20);
    let h100 = |settings: &str| taken("dgx_h100_8x400g.p8.n1", "2.30.7", settings, gather);
    for (written, blocks) in [("0x10", 16), ("010", 8), ("10", 10)] {
        assert_eq!(h100(&format!("NCCL_SYM_CTAS={written}")).unwrap().1, blocks, "{written}");
    }
    let b200 = |settings: &str| taken("dgx_b200_8x400g.p8.n1", "2.30.7", settings, gather);
    assert_eq!(b200("NCCL_SYM_CE_THRESHOLD=0").unwrap().0, "AllGather_UC");
    assert_eq!(b200("NCCL_SYM_CE_THRESHOLD=-1"), b200(""));
    let scatter = (Function::ReduceScatter, 64 << 20);
    let rails = |settings: &str| taken("dgx_h100_8x400g.p8.n2", "2.30.7", settings, scatter);
    for default in ["-1", "0", "131072"] {
        assert_eq!(rails(&format!("NCCL_SYM_RS_GIN_CHUNK_SIZE={default}")), rails(""), "{default}");
    }
    assert_ne!(rails("NCCL_SYM_RS_GIN_CHUNK_SIZE=1"), rails(""));
    // An empty name is no kernel's; since 2.31 an empty list is none.
    assert_eq!(h100("NCCL_SYM_KERNEL="), None);
    let newer = |settings: &str| taken("dgx_h100_8x400g.p8.n1", "2.31.2", settings, gather);
    assert_eq!(newer("NCCL_SYM_KERNEL="), newer(""));
    assert!(newer("").is_some());
}

/// v2.30.7-1 `src/sym_kernels.cc`: the job's bounds are those of every kernel.
#[test]
fn kernels_keep_to_the_blocks_that_the_job_allows() {
    let blocks = |place: &str, version: &str, settings: &[(&str, &str)], (function, size)| {
        let (mut knobs, mut own) = (Knobs::default(), Settings::default());
        for (name, value) in settings {
            if !knobs.set(name, value).unwrap() {
                own.set(name, value).unwrap();
            }
        }
        let comm = Place::named(place).unwrap().searched(&knobs).unwrap().communicator();
        let model = CostModel::new(&comm, release(version), &own, Reduction::default()).unwrap();
        let call = Call { function, size: Bytes(size), pipelined: 1 };
        model.among_kernels(&call).unwrap().channels
    };
    let gather = (Function::AllGather, 1 << 30);
    let scatter = (Function::ReduceScatter, 64 << 20);
    for (place, version, call) in [
        ("dgx_h100_8x400g.p8.n1", "2.27.3", gather),
        ("dgx_h100_8x400g.p8.n1", "2.30.7", gather),
        ("dgx_h100_8x400g.p8.n1", "2.32.6", gather),
        ("dgx_h100_8x400g.p8.n2", "2.29.2", gather),
        ("dgx_h100_8x400g.p8.n2", "2.30.7", gather),
        ("dgx_h100_8x400g.p8.n2", "2.30.7", scatter),
    ] {
        let of = |settings: &[(&str, &str)]| blocks(place, version, settings, call);
        assert!(of(&[]) > 1, "{place} {version}");
        assert_eq!(of(&[("NCCL_MAX_CTAS", "1")]), 1, "{place} {version}");
    }
    let most = [("NCCL_MAX_CTAS", "1"), ("NCCL_SYM_CTAS", "3")];
    assert_eq!(blocks("dgx_h100_8x400g.p8.n1", "2.30.7", &most, gather), 3);
    let least = [("NCCL_MIN_CTAS", "9")];
    let small = (Function::AllReduce, 1 << 10);
    assert!(blocks("dgx_h100_8x400g.p8.n1", "2.30.7", &[], small) < 9);
    assert_eq!(blocks("dgx_h100_8x400g.p8.n1", "2.30.7", &least, small), 9);
}

/// What a release takes for all-reduces of a range of bytes.
fn all_reduce(
    comm: &Communicator,
    version: &str,
    (least, most): (u64, u64),
    windows: Windows,
) -> collcost::base::error::Result<Choose> {
    choose(&Question {
        name: String::new(),
        comm,
        nccl: release(version),
        settings: &Settings::default(),
        function: Function::AllReduce,
        reduction: Reduction::default(),
        sizes: (Bytes(least), Bytes(most)),
        windows,
        notes: Vec::new(),
    })
}

/// 2.29.2 takes a kernel with flags only where the algorithms would run with them too.
#[test]
fn kernels_with_flags_ask_the_algorithms_in_2_29_2() {
    let comm = Place::named("dgx_h100_8x400g.p8.n1").unwrap().communicator().unwrap();
    let flags = |version: &str, windows| {
        let report = all_reduce(&comm, version, (8, 1 << 30), windows).unwrap();
        let ranges = report.ranges.into_iter();
        let with = ranges.filter(|r| {
            r.protocol == Some("LL") || r.kernel.is_some_and(|name| name.contains("LL"))
        });
        with.map(|range| range.to_bytes).max()
    };
    let (own, before) = (flags("2.29.2", Windows::None), flags("2.28.9", Windows::Both));
    assert_eq!(flags("2.29.2", Windows::Both), own.min(before));
    assert_eq!(flags("2.29.7", Windows::Both), before);
}

/// `choose --registered` and a replay with `reg` are one answer.
#[test]
fn a_replay_knows_windows() {
    let comm = Place::named("dgx_h100_8x400g.p8.n1").unwrap().communicator().unwrap();
    let named = [comms::Named { id: "c".to_owned(), comm }];
    let settings = HashMap::new();
    for version in ["2.26.2", "2.27.3", "2.28.9", "2.29.2", "2.30.7", "2.31.2"] {
        for size in [1 << 10, 64 << 10, 1 << 20, 256 << 20] {
            let question = format!(
                "id,version,env,pipeops,collective,nbytes,reg,dtype\nc,{version},,1,AllReduce,{size},1,\n"
            );
            let mut answer = Vec::new();
            Replay::new(&named, &settings).answer(question.as_bytes(), &mut answer).unwrap();
            let answer = String::from_utf8(answer).unwrap();
            let kernel = answer.trim_end().rsplit(',').next().unwrap().to_owned();
            let asked = all_reduce(&comm, version, (size, size), Windows::Both);
            let own = asked.ok().and_then(|report| report.ranges[0].kernel).unwrap_or_default();
            assert_eq!(kernel, own, "{version} {size}: {answer}");
            assert_eq!(kernel.is_empty(), version == "2.26.2" || answer.contains(",general,"));
        }
    }
}
