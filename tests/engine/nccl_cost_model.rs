//! NCCL's tuner of 2.31 and 2.32 against what NVIDIA's own code answered.
//!
//! The rows of `tests/data/nccl_cost_model_*` are a sample of what NVIDIA/nccl 2.31.2 and the
//! development state before 2.32.6, compiled without a GPU, answered for communicators of known
//! machines, of random ones, and of made-up ones with GPUs of Rubin's kind: plain buffers and
//! buffers in symmetric windows, with and without settings.
//!
//! `nccl_cost_model_library.csv.gz` is what the released library of 2.32.3 answered
//! (`nvidia-nccl-cu13` on PyPI, whose functions can be called by its debug symbols without a GPU):
//! random sizes, groups of up to 99 operations, and kernels on B200 and B300.

use std::collections::HashMap;

use collcost::answer::batch::nccl::{Replay, write_tables};
use collcost::answer::nccl::{Question, choose};
use collcost::base::quantity::Bytes;
use collcost::library::nccl::cost_model::{Candidate, CostModel, Kernel, Windows};
use collcost::library::nccl::log::Log;
use collcost::library::nccl::search::{Job, search};
use collcost::library::nccl::topology::Knobs;
use collcost::library::nccl::topology_merge::{Machine, lint, merge};
use collcost::library::nccl::{
    Call, Function, Place, Reduction, Settings, Version, comms, envs, topology_file,
};

use crate::gzip::inflate;

fn communicators() -> Vec<comms::Named> {
    let text = inflate(include_bytes!("../data/nccl_cost_model_communicators.csv.gz"));
    comms::read(&text).expect("they are communicators")
}

fn environments() -> Vec<(String, Settings)> {
    let text = include_str!("../data/nccl_cost_model_environments.csv");
    envs::read(text).expect("they are environments")
}

/// Answers every row's question, and compares algorithm or kernel, channels, threads and time.
fn held_to(rows: &str) -> usize {
    let comms = communicators();
    let envs: HashMap<_, _> = environments().into_iter().collect();
    let mut answers = Vec::new();
    Replay::new(&comms, &envs).answer(rows.as_bytes(), &mut answers).expect("all are questions");
    let answers = String::from_utf8(answers).unwrap();
    assert_eq!(answers.lines().count(), rows.lines().count());
    for (ours, theirs) in answers.lines().zip(rows.lines()) {
        assert_eq!(ours, theirs);
    }
    rows.lines().count() - 1
}

#[test]
fn every_decision_is_nvidias() {
    let rows = inflate(include_bytes!("../data/nccl_cost_model_choices.csv.gz"));
    assert_eq!(held_to(&rows), 20_734);
    for kind in ["2.31.2", "2.32.6", ",sym,", ",ce,", ",TUNE_RC5,", ",NONE,", "vr.", ",bfloat16,"] {
        assert!(rows.contains(kind), "{kind}");
    }
}

#[test]
fn every_decision_of_2_32_3_is_the_librarys() {
    let rows = inflate(include_bytes!("../data/nccl_cost_model_library.csv.gz"));
    assert_eq!(held_to(&rows), 4273);
}

/// A batch holds ten operations, since each takes 96 bytes of its kibibyte; before, eight of 128.
#[test]
fn groups_pay_a_latency_for_ten_operations() {
    let comm = Place::named("dgx_h100_8x400g.p8.n2").unwrap().communicator().unwrap();
    let time = |version: &str, pipelined| {
        let mut settings = Settings::default();
        settings.set("NCCL_ALGO", "Tree").unwrap();
        settings.set("NCCL_PROTO", "Simple").unwrap();
        let version: Version = version.parse().unwrap();
        let model = CostModel::new(&comm, version, &settings, Reduction::default()).unwrap();
        let call = Call { function: Function::AllReduce, size: Bytes(1 << 20), pipelined };
        model.decide(&call, Windows::None).unwrap().time().unwrap().0
    };
    assert!(time("2.31.2", 8) < time("2.31.2", 9));
    assert_eq!(time("2.32.3", 8), time("2.32.3", 10));
    assert!(time("2.32.3", 10) < time("2.32.3", 11));
}

#[test]
fn every_table_is_nvidias() {
    let truth = inflate(include_bytes!("../data/nccl_cost_model_tables.csv.gz"));
    let mut ours = Vec::new();
    let version: Version = "2.31.2".parse().unwrap();
    let plain = [(String::new(), Settings::default())];
    write_tables(&mut ours, &communicators(), &[version], &plain).unwrap();
    let ours = String::from_utf8(ours).unwrap();
    assert_eq!(ours.lines().next(), truth.lines().next());
    let ours: std::collections::HashSet<&str> = ours.lines().collect();
    for line in truth.lines() {
        assert!(ours.contains(line), "{line}");
    }
    assert_eq!(truth.lines().count() - 1, 5985);
}

#[test]
fn ids_are_those_of_the_log() {
    let best = Candidate::numbered;
    assert_eq!(best(5).unwrap().name(Version::NEWEST), "Ring/Simple");
    assert_eq!(best(21), Some(Candidate::Symmetric(Kernel::AllReduceLl)));
    assert_eq!(best(38).unwrap().name(Version::NEWEST), "ReduceScatter_RailA2A_LsaLDMC");
    assert_eq!(best(40).unwrap().name(Version::NEWEST), "AllGather_MC");
    assert_eq!(best(41), None);
    assert!((0..41).all(|id| best(id).unwrap().id() == id));
}

/// What the ranges say on windows is what is decided at both ends, and in between.
#[test]
fn ranges_on_windows_are_what_is_decided() {
    for (machine, version) in
        [("dgx_h100_8x400g.p8.n1", "2.31.2"), ("dgx_b200_8x400g.p8.n1", "2.32.6")]
    {
        let comm = Place::named(machine).unwrap().communicator().unwrap();
        let version: Version = version.parse().unwrap();
        let settings = Settings::default();
        let reduction = Reduction::default();
        let model = CostModel::new(&comm, version, &settings, reduction).unwrap();
        for function in [Function::AllGather, Function::AllReduce, Function::ReduceScatter] {
            let report = choose(&Question {
                name: machine.to_owned(),
                comm: &comm,
                nccl: version,
                settings: &settings,
                function,
                reduction,
                sizes: (Bytes(8), Bytes(4 << 30)),
                windows: Windows::Both,
                notes: Vec::new(),
            })
            .unwrap();
            assert!(report.ranges.len() > 1);
            let mut next = 8;
            for range in &report.ranges {
                assert_eq!(range.from_bytes, next);
                next = range.to_bytes + 1;
                for size in
                    [range.from_bytes, range.to_bytes.midpoint(range.from_bytes), range.to_bytes]
                {
                    let call = Call { function, size: Bytes(size), pipelined: 1 };
                    let best = model.decide(&call, Windows::Both).unwrap();
                    let own = range.kernel.expect("a kernel serves all of these");
                    assert_eq!(best.candidate.name(version), own, "{machine} {function} {size}");
                }
            }
            assert_eq!(next, (4 << 30) + 1);
        }
    }
}

#[test]
fn windows_need_a_release_that_has_kernels() {
    let comm = Place::named("dgx_h100_8x400g.p8.n1").unwrap().communicator().unwrap();
    let ask = |version: &str| {
        choose(&Question {
            name: String::new(),
            comm: &comm,
            nccl: version.parse().unwrap(),
            settings: &Settings::default(),
            function: Function::AllReduce,
            reduction: Reduction::default(),
            sizes: (Bytes(1 << 20), Bytes(1 << 20)),
            windows: Windows::Both,
            notes: Vec::new(),
        })
    };
    assert!(ask("2.26.2").unwrap_err().to_string().contains("no symmetric kernels"));
    assert!(ask("2.28.9").unwrap().ranges[0].kernel.is_some());
}

/// The lines of 2.31: a request, and what is best for it.
#[test]
fn best_tuning_is_read_as_a_choice() {
    let log = "\
h:1:1 [0] NCCL INFO Input: { .comm = 0x7f, .tuningMask = 0x1fffff, .func = AllReduce, .redOp = 0, .devRedop = 0, .dataType = 7, .nBytes = 65536, .numPipesOps = 1, .count = 16384, .countMax = 16384, .nWorks = 1, .winRegType = 0, .regBuff = 0 }
h:1:1 [0] NCCL INFO Best tuning { .id = 0, .valid = 1, timeUs = 31.786232,  .algo = TREE, .proto = LL, .symKernelId = Unknown, .ceMethodId = 2, nChannels = 16, maxChannels = 16, nWarps = 20, forced = 0 }
h:1:1 [0] NCCL INFO Input: { .comm = 0x7f, .tuningMask = 0x7fffe00000, .func = AllGather, .redOp = 0, .devRedop = 0, .dataType = 0, .nBytes = 1024, .numPipesOps = 1, .count = 1024, .countMax = 1024, .nWorks = 1, .winRegType = 3, .regBuff = 0 }
h:1:1 [0] NCCL INFO Best tuning { .id = 27, .valid = 1, timeUs = 5.4,  .algo = Unknown, .proto = Unknown, .symKernelId = AllGather_LLMC, .ceMethodId = 2, nChannels = 4, maxChannels = -1, nWarps = 16, forced = 0 }
";
    let log = Log::read(log, "a.log").unwrap();
    let [choice] = &log.choices[..] else { panic!("{:?}", log.choices) };
    assert_eq!((choice.line, choice.bytes.0), (2, 65536));
    assert_eq!(format!("{}/{}", choice.algo, choice.proto), "Tree/LL");
    assert!(!choice.is_per_rank());
    let cut = "h:1:1 [0] NCCL INFO Input: { .comm = 0x7f, .tuningMask = 0x1fffff, .fun";
    assert!(Log::read(cut, "a.log").is_err());
}

/// A frame as clouds publish them: two switches with two GPUs and a NIC each.
const FRAME: &str = r#"<system version="1">
  <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:20:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0000:21:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0000:22:00.0" class="0x020700" link_speed="" link_width="16"/>
    </pci>
  </cpu>
  <cpu numaid="1" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="ffff:ff:02.0" class="0x060400" link_speed="16 GT/s" link_width="16">
      <pci busid="0000:11:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0000:10:00.0" class="0x030200" link_speed="16 GT/s" link_width="16"/>
      <pci busid="0000:12:00.0" class="0x020700" link_speed="16 GT/s" link_width="16"/>
    </pci>
  </cpu>
</system>
"#;

#[test]
fn a_frame_becomes_a_machine() {
    let machine = Machine {
        gpus: Some("a100:4".parse().unwrap()),
        nics: Some("2x200".parse().unwrap()),
        processor: None,
    };
    let merged = |version: &str| merge(FRAME, "f", &machine, version.parse().unwrap()).unwrap();
    let bus = |xml: &str| -> Vec<String> {
        let devices =
            xml.lines().filter(|l| l.contains("class=\"0x02") || l.contains("class=\"0x03"));
        devices.map(|l| l.split('"').nth(1).unwrap()[5..7].to_owned()).collect()
    };
    // Ranks count by address; until 2.22 the file's order stays.
    assert_eq!(bus(&merged("2.21.5").xml), ["20", "21", "22", "11", "10", "12"]);
    // Then rank 0's own GPU stands among the NICs, and the others behind.
    let new = merged("2.30.7");
    assert_eq!(bus(&new.xml), ["22", "20", "21", "10", "12", "11"]);
    for told in ["GPU", "NIC", "generation 3", "invented"] {
        assert!(new.notes.iter().any(|note| note.contains(told)), "{told}: {:?}", new.notes);
    }
    let description = topology_file::read(&new.xml, "f").unwrap();
    let job = Job { nodes: 2, per_node: None };
    let found = search(&description, Version::NEWEST, job, &Knobs::default()).unwrap();
    let comm = found.communicator();
    assert_eq!((comm.ranks, comm.min_cc, comm.nvswitch), (8, 80, true));
    // A complete file stays as it is but for its order.
    assert_eq!(merge(&new.xml, "f", &machine, Version::NEWEST).unwrap().xml, new.xml);
}

/// A file of bridges alone: the last are the NICs'. One of NICs alone has no place for a GPU.
#[test]
fn devices_without_a_class_are_told_by_their_number() {
    let bridges = |count: usize| {
        let each = |i| format!("<pci busid=\"0000:00:{:02x}.0\"/>", 0x10 + i);
        let all: String = (0..count).map(each).collect();
        format!("<system version=\"1\"><cpu numaid=\"0\">{all}</cpu></system>")
    };
    let machine = Machine {
        gpus: Some("a10g:4".parse().unwrap()),
        nics: Some("1x100".parse().unwrap()),
        processor: Some("amd".parse().unwrap()),
    };
    let merged = merge(&bridges(5), "f", &machine, Version::NEWEST).unwrap();
    assert!(merged.notes.iter().any(|note| note.contains("the last 1")), "{:?}", merged.notes);
    let description = topology_file::read(&merged.xml, "f").unwrap();
    let job = Job { nodes: 2, per_node: None };
    let found = search(&description, Version::NEWEST, job, &Knobs::default()).unwrap();
    assert_eq!((found.communicator().ranks, found.communicator().min_cc), (8, 86));
    let many = Machine { nics: Some("16x100".parse().unwrap()), ..machine };
    let refused = merge(&bridges(16), "f", &many, Version::NEWEST).unwrap_err().to_string();
    assert!(refused.contains("4") && refused.contains("16"), "{refused}");
}

#[test]
fn what_does_not_fit_a_frame_is_refused() {
    let fails = |gpus: &str, nics: Option<&str>, text: &str| {
        let machine = Machine {
            gpus: Some(gpus.parse().unwrap()),
            nics: nics.map(|nics| nics.parse().unwrap()),
            processor: None,
        };
        merge(text, "f", &machine, Version::NEWEST).unwrap_err().to_string()
    };
    assert!(fails("a100:8", None, FRAME).contains("4 GPUs"));
    assert!(fails("a100:4", Some("3x200"), FRAME).contains("2 NICs"));
    let bare = FRAME.replace("arch=\"x86_64\" ", "");
    assert!(fails("a100:4", None, &bare).contains("processor"));
    let rccl = FRAME.replace("version=\"1\"", "version=\"2\"");
    assert!(fails("a100:4", None, &rccl).contains("RCCL"));
}

#[test]
fn a_lint_tells_what_nccl_does_with_a_file() {
    let file = r#"<system version="1"><cpu numaid="0">
<pci busid="0000:10:00.0"><gpu dev="0" sm="90" rank="0" gdr="1"/></pci>
<pci busid="0000:11:00.0" class="0x020000"><nic>
<net name="a" dev="0" guid="7"/><net name="b" dev="1" guid="7"/></nic></pci></cpu></system>"#;
    let notes = lint(file, "f").unwrap().join("\n");
    let told = [
        "without arch",
        "without class",
        "without <nvlink>",
        "without 0x",
        "one guid",
        "as one NIC",
    ];
    for told in told {
        assert!(notes.contains(told), "{told}: {notes}");
    }
}
