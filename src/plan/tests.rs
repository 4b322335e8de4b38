use super::price::SCALES;
use super::*;
use crate::base::text_pos::Document;
use crate::model::algorithm::Registry;
use crate::plan::table::{BuiltIn, Faults, Layer, Machines, in_order};

/// The step of a text, or its faults.
fn read_step(text: &str) -> std::result::Result<Step, Vec<String>> {
    let document = Document::parse(text).unwrap();
    let faults = Faults::default();
    let machines = Machines::new(&BuiltIn);
    let file = Layer { file: "plan.toml", document: &document, table: document.root(), start: 0 };
    let found = steps(file, &faults);
    let step =
        found.first().and_then(|(name, layer)| read(name, vec![*layer], &[], &machines, &faults));
    let said: Vec<String> = in_order(faults).iter().map(ToString::to_string).collect();
    step.ok_or(said)
}

fn step(keys: &str) -> Step {
    let machine = if keys.contains("profile") { "" } else { "alpha = \"5us\"\nbw = \"100GB/s\"\n" };
    let text = format!("[step.x]\nparams = \"8B\"\nlayers = 32\nhidden = 4096\n{machine}{keys}");
    read_step(&text).unwrap_or_else(|faults| panic!("{faults:#?}"))
}

fn priced(step: &Step) -> Priced {
    price(&Registry::builtin(), step, &Tweak::default()).unwrap()
}

/// Names, counts and sizes of a step's calls.
fn list(keys: &str) -> Vec<(String, Collective, u32, f64, f64)> {
    let of = |c: Call| (c.name, c.collective, c.group.ranks, c.count.0, c.size.0);
    calls(&step(keys)).into_iter().map(of).collect()
}

/// Open MPI's nonoverlapping all-reduce is a reduce and a broadcast: no algorithm of the all-reduce.
#[test]
fn a_call_that_is_made_of_other_operations_is_priced() {
    let keys = "profile = \"ib-hdr\"\ndp = 128\ngpus_per_node = 32\n[[step.x.call]]\nname = \"own\"\n\
                collective = \"allreduce\"\nsize = \"64KiB\"";
    let priced = priced(&step(keys));
    let own = priced.calls.iter().find(|price| price.call.name == "own").unwrap();
    assert_eq!((own.algorithm.as_str(), own.between), ("nonoverlapping", None));
    assert!(own.time.0 > 0.0);
}

/// A barrier moves no data: a call of it has no size to give.
#[test]
fn a_barrier_of_a_step_needs_no_size() {
    let keys = "profile = \"ib-hdr\"\ndp = 128\ngpus_per_node = 32\n[[step.x.call]]\nname = \"own\"\n\
                collective = \"barrier\"";
    let own = list(keys).into_iter().find(|call| call.0 == "own").unwrap();
    assert_eq!((own.1, own.4), (Collective::Barrier, 0.0));
}

#[test]
fn every_preset_is_read_and_priced() {
    let document = Document::parse(PRESETS).unwrap();
    let faults = Faults::default();
    let machines = Machines::new(&BuiltIn);
    let file = Layer { file: "presets", document: &document, table: document.root(), start: 0 };
    let found = steps(file, &faults);
    assert_eq!(found.len(), preset_names().count());
    for (name, layer) in found {
        let step = read(name, vec![layer], &[], &machines, &faults);
        let step = step.unwrap_or_else(|| panic!("{name}: {:?}", faults.borrow()));
        let priced = priced(&step);
        assert!(!priced.calls.is_empty() && priced.messages.0 > 0.0, "{name}");
        for call in &priced.calls {
            assert!(call.exposed.0 <= call.total.0 * (1.0 + 1e-9), "{name} {call:?}");
        }
        // What a step is made of is the step, and a published rate leaves time to compute.
        let near = |x: Seconds, y: f64| assert!((x.0 / y - 1.0).abs() < 1e-9, "{name} {x} {y}");
        near(priced.exposed, priced.calls.iter().map(|c| c.exposed.0).sum());
        let busy = priced.compute.unwrap_or_default() + priced.bubble.unwrap_or_default();
        near(priced.time(), busy.0 + priced.exposed.0);
        if let Some(whole) = priced.end_to_end {
            near(priced.time(), whole.0);
            assert!(priced.exposed.0 < 0.5 * whole.0, "{name}: {} of {whole}", priced.exposed);
        }
    }
}

/// Collectives that take longer than a step at the rate that was given contradict it, and are not hidden.
#[test]
fn a_rate_that_its_collectives_exceed_is_said() {
    let keys = "tp = 8\nmicrobatches = 4\nkernels = \"400TFLOP/s\"";
    let slow = step(&keys.replace("kernels", "compute").replace("400T", "4000T"));
    let priced = priced(&slow);
    assert_eq!(priced.compute, Some(Seconds(0.0)));
    assert_eq!(priced.time(), priced.exposed);
    assert!(priced.end_to_end.is_some_and(|whole| whole < priced.exposed));
}

/// A published rate is of the machine as it is: a slower network makes the step longer.
#[test]
fn a_changed_machine_computes_as_long_under_an_end_to_end_rate() {
    let own =
        step("profile = \"dgx-h100\"\ntp = 8\ndp = 8\nmicrobatches = 4\ncompute = \"300TFLOP/s\"");
    let on = |rate: &str| {
        let set = vec![("inter.bw".to_owned(), rate.to_owned())];
        price(&Registry::builtin(), &own, &Tweak { set, scale: None }).unwrap()
    };
    let (whole, slow, fast) = (priced(&own), on("100Gb/s"), on("800Gb/s"));
    assert!(slow.time() > whole.time() && fast.time() < whole.time());
    assert_eq!((slow.compute, fast.compute), (whole.compute, whole.compute));
}

#[test]
fn tensor_parallelism_adds_twice_a_layer_each_way() {
    let act = 4096.0 * 4096.0 * 2.0;
    let ar = Collective::AllReduce;
    let seen = list("tp = 8\nmicrobatches = 4\n");
    let want = [("activations", 256.0), ("their gradients", 256.0)]
        .map(|(name, count)| (name.to_owned(), ar, 8, count, act));
    assert_eq!(seen, want);
    // Sequence parallelism moves as much in halves.
    let halves = list("tp = 8\nsp = true\n");
    assert_eq!(halves.iter().map(|c| c.3).sum::<f64>(), 4.0 * 64.0);
    assert!(halves.iter().all(|c| c.4 == act));
    let decoding = list("mode = \"decoding\"\nbatch = 4\ntp = 8\n");
    assert_eq!(decoding, [("activations".to_owned(), ar, 8, 64.0, 4.0 * 4096.0 * 2.0)]);
}

/// ZeRO-1 and 2 move what an all-reduce moves, FSDP half as much again; each over gradients of 2 bytes.
#[test]
fn stages_of_zero_move_what_their_paper_says() {
    let moved = |keys: &str| -> f64 {
        let calls = calls(&step(&format!("dp = 64\n{keys}")));
        let share = |c: &Call| match c.collective {
            Collective::AllReduce => 2.0,
            _ => 1.0,
        };
        calls.iter().map(|c| c.size.0 * c.count.0 * share(c)).sum::<f64>() / 16e9
    };
    let near = |x: f64, y: f64| assert!((x - y).abs() < 1e-9, "{x} {y}");
    near(moved(""), 2.0);
    near(moved("shard = \"zero1\""), 2.0);
    near(moved("shard = \"zero2\""), 2.0);
    near(moved("shard = \"fsdp\""), 3.0);
    near(moved("shard = \"fsdp\"\nreshard = false"), 2.0);
    // HSDP over parts of 8: the same inside, an eighth of the gradients summed between.
    near(moved("shard = \"hsdp\"\nshard_size = 8"), 3.0 + 2.0 / 8.0);
    // Half the bytes, and a 500th of the sums.
    near(moved("compress = \"fp8\""), 1.0);
    near(moved("every = 500"), 2.0 / 500.0);
}

/// FSDP2 reduces a unit's gradients between shards, then between replicas; DDP's buckets are no part of it.
#[test]
fn replicas_of_shards_agree_unit_by_unit() {
    let calls = calls(&step("dp = 64\nshard = \"hsdp\"\nshard_size = 8\n"));
    let [reduce, sum] = [Collective::ReduceScatter, Collective::AllReduce]
        .map(|of| calls.iter().find(|c| c.collective == of).unwrap());
    assert_eq!((sum.count, sum.hides), (reduce.count, Hides::Backward));
    assert_eq!(sum.size.0, reduce.size.0 / 8.0);
}

#[test]
fn what_is_seldom_costs_its_part() {
    let often = priced(&step("dp = 64\n"));
    let seldom = priced(&step("dp = 64\nevery = 1\n"));
    assert_eq!(often.messages, seldom.messages);
    let five = priced(&step("dp = 64\nevery = 5\n"));
    let ten = priced(&step("dp = 64\nevery = 10\n"));
    assert!((five.messages.0 / ten.messages.0 - 2.0).abs() < 1e-9);
}

#[test]
fn groups_lie_as_their_order_says() {
    let step = step("profile = \"dgx-h100\"\ntp = 4\ndp = 8\npp = 2\n");
    let lies = |axis| {
        let lies = step.group(axis).lies(64, 8);
        (lies.nodes, lies.per_node, lies.beside, lies.uneven)
    };
    assert_eq!(lies(Axis::Tp), (1, 4, 2, false));
    assert_eq!(lies(Axis::Dp), (4, 2, 4, false));
    assert_eq!(lies(Axis::Pp), (2, 1, 8, false));
    // Off the grid: groups of 3 on nodes of 8 straddle.
    let odd = Group::new(3, 1).lies(24, 8);
    assert_eq!((odd.nodes, odd.uneven), (2, true));
}

/// Ranks with the same weights are those of DP and CP, wherever TP stands; experts are on the inner ones of them.
#[test]
fn groups_of_two_axes_lie_as_their_order_says() {
    let lies = |order: &str| {
        let keys = format!(
            "profile = \"dgx-h100\"\ntp = 4\ncp = 2\ndp = 2\nshard = \"zero1\"\norder = \"{order}\""
        );
        let calls = priced(&step(&keys)).calls;
        let dp = calls.into_iter().find(|call| call.call.axis == Axis::Dp).unwrap();
        (dp.lies.nodes, dp.lies.per_node, dp.lies.beside, dp.total)
    };
    // {0, 4, 8, 12}, and {0, 1, 8, 9} twice.
    let usual = lies("tp,cp,dp,pp");
    assert_eq!((usual.0, usual.1, usual.2), (2, 2, 4));
    assert_eq!([lies("cp,tp,dp,pp"), lies("dp-tp-cp-pp")], [usual; 2]);
    let keys =
        "profile = \"dgx-h100\"\ntp = 4\ndp = 4\nep = 2\nexperts = 8\norder = \"dp,tp,cp,pp\"";
    let own = step(keys);
    assert_eq!(own.group(Axis::Ep), Group::new(2, 1));
    // Parts of runs: inside one, or of whole ones.
    let runs = Group::new(4, 1).repeated(4, 16);
    assert_eq!(runs.parts(2), (Group::new(2, 1), Group::new(2, 2).repeated(4, 16)));
    assert_eq!(runs.parts(8), (Group::new(4, 1).repeated(2, 16), Group::new(2, 32)));
}

/// Two stages on a node: from one node to the next goes every second message, of as many ranks as a stage has.
#[test]
fn stages_pass_nodes_where_any_two_neighbours_do() {
    let lies = |stages, stride, world, node| {
        let lies = Group::neighbours(stages, stride).lies(world, node);
        (lies.nodes, lies.per_node, lies.beside)
    };
    assert_eq!(lies(4, 4, 16, 8), (2, 1, 4));
    assert_eq!(lies(2, 8, 16, 8), (2, 1, 8));
    assert_eq!(lies(12, 1, 12, 8), (2, 1, 1));
    // Whole pipelines on a node, or one node alone.
    assert_eq!(lies(4, 2, 64, 8).0, 1);
    assert_eq!(lies(4, 4, 16, 16).0, 1);
    let of = |keys: &str| {
        let calls =
            priced(&step(&format!("profile = \"dgx-h100\"\nmicrobatches = 32\n{keys}"))).calls;
        let hop = calls.into_iter().find(|call| call.call.axis == Axis::Pp).unwrap();
        (hop.lies.nodes, hop.time)
    };
    let (two_on_a_node, one) = (of("tp = 2\npp = 4\ndp = 2\n"), of("tp = 2\npp = 2\ndp = 4\n"));
    assert_eq!(two_on_a_node.0, 2);
    assert!((two_on_a_node.1.0 / one.1.0 - 1.0).abs() < 0.01, "{two_on_a_node:?} {one:?}");
}

/// Both holders of a stage of DualPipe: on a node each where the row of stages has more than one.
#[test]
fn what_a_row_mirrors_is_on_two_nodes_where_the_row_is_not_on_one() {
    let lies = |ranks, stride, row, world, node| {
        let lies = Group::new(ranks, stride).mirrored(row).lies(world, node);
        (lies.nodes, lies.per_node, lies.beside)
    };
    assert_eq!(lies(2, 1, 16, 16, 8), (2, 2, 4));
    assert_eq!(lies(1, 8, 16, 16, 8), (2, 1, 8));
    assert_eq!(lies(8, 2, 64, 64, 8), (4, 4, 2));
    assert_eq!(lies(2, 1, 8, 64, 8), (1, 4, 2));
}

/// Eight groups with one rank on a node and four NICs: two share one.
#[test]
fn groups_beside_each_other_share_nics() {
    let four = step("profile = \"dgx-h100\"\ntp = 8\ndp = 8\nnics = 4\n");
    let eight = step("profile = \"dgx-h100\"\ntp = 8\ndp = 8\n");
    let gradients = |s: &Step| priced(s).calls.last().unwrap().clone();
    let (shared, own) = (gradients(&four), gradients(&eight));
    assert_eq!((shared.sharing, own.sharing), (Ratio(8.0), Ratio(1.0)));
    assert!(shared.total > own.total);
}

#[test]
fn computation_hides_what_it_is_longer_than() {
    let keys = "dp = 64\nshard = \"fsdp\"\nprofile = \"dgx-h100\"\n";
    let bare = priced(&step(keys));
    assert_eq!(bare.exposed, bare.messages);
    let slow = priced(&step(&format!("{keys}forward = \"10s\"\nbackward = \"20s\"\n")));
    // Only the first layer's parameters and the last one's gradients stick out.
    assert!(slow.exposed.0 < bare.messages.0 / 16.0 && slow.exposed.0 > 0.0);
    let quick = priced(&step(&format!("{keys}forward = \"1us\"\nbackward = \"2us\"\n")));
    assert!(quick.exposed.0 > 0.99 * bare.messages.0);
}

#[test]
fn faults_are_named_together_with_their_places() {
    let text = "[step.x]\nparams = \"8Q\"\nlayers = 0\nhiden = 4096\ntp = 8\nep = 3\n";
    let faults = read_step(text).err().unwrap();
    let places: Vec<&str> = faults.iter().map(|f| f.split(": ").next().unwrap()).collect();
    assert_eq!(
        places,
        [
            "plan.toml:1:7",
            "plan.toml:2:10",
            "plan.toml:3:10",
            "plan.toml:4:1",
            "plan.toml:6:6",
            "plan.toml:6:6"
        ],
        "{faults:#?}"
    );
    assert!(faults[3].contains("did you mean `hidden`?"), "{faults:#?}");
}

/// arXiv 2412.19437, section 3.3.3: gradients go to the experts in FP8 as tokens do, and both come back in bf16.
#[test]
fn gradients_are_dispatched_in_the_type_of_tokens() {
    let all = list(
        "sequence = 4096\nbatch = 1\ndp = 8\nep = 8\nexperts = 64\ntop_k = 8\nexpert_params = \"4B\"\n\
         dispatch_dtype = \"fp8\"\n",
    );
    let bytes = |name: &str| all.iter().find(|call| call.0 == name).unwrap().4;
    assert_eq!(bytes("dispatch back"), bytes("dispatch"));
    assert_eq!(bytes("combine back"), bytes("combine"));
    assert_eq!(bytes("combine"), 2.0 * bytes("dispatch"));
}

/// PyPI aiconfigurator-core 0.12.0, H100 SXM, SGLang 0.5.12: 4,096 tokens of 7,168 to 8 of 256 experts on
/// the 8 ranks of a node leave at 290 GB/s by DeepEP's normal kernels, and come back at 317.
#[test]
fn tokens_by_deepep_take_what_was_measured() {
    let of = |kernels: &str, tokens: u32| {
        let text = format!(
            "[step.x]\nparams = \"8B\"\nmode = \"decoding\"\nprofile = \"dgx-h100\"\nlayers = 1\n\
             hidden = 7168\nbatch = {tokens}\ndp = 8\nep = 8\nexperts = 256\ntop_k = 8\n\
             dispatch_dtype = \"fp8\"\nall2all = \"{kernels}\"\n"
        );
        read_step(&text).unwrap_or_else(|faults| panic!("{faults:#?}"))
    };
    let missed: f64 = (0..8).map(|i| f64::from(224 - i) / f64::from(256 - i)).product();
    let leaves = 4096.0 * 7.0 * (1.0 - missed) * 7168.0;
    let normal = priced(&of("deepep-normal", 4096)).calls;
    for (call, bytes, rate) in
        [(&normal[0], leaves * 1.03125, 290e9), (&normal[1], leaves * 2.0, 317e9)]
    {
        assert_eq!(call.algorithm, "deepep-normal");
        let expected = call.expected.as_ref().unwrap().0;
        assert!((bytes / rate / call.time.0 - 1.0).abs() < 0.25, "{} {call:?}", bytes / rate);
        assert!(expected.low < call.time && call.time < expected.high && expected.error.is_some());
    }
    let few = priced(&of("deepep-ll", 32)).calls;
    assert!(few[0].time.0 < 40e-6 && few[0].time < priced(&of("deepep-normal", 32)).calls[0].time);
}

/// DeepEP's docs/legacy.md: GB/s of its normal kernels over nodes of H800, with a token's own node, out with
/// the scales of FP8, and back. What links allow has the band of what is reached of them.
#[test]
fn tokens_sent_once_to_a_node_are_as_fast_as_deepep_says() {
    for (ranks, out, back) in [(16, 43.0, 43.0), (32, 58.0, 57.0), (64, 51.0, 50.0)] {
        let step = read_step(&format!(
            "[step.x]\nparams = \"8B\"\nmode = \"decoding\"\nprofile = \"hgx-h800\"\nlayers = 1\n\
             hidden = 7168\nbatch = 4096\ndp = {ranks}\nep = {ranks}\nexperts = 256\ntop_k = 8\n\
             node_limit = 4\ndispatch_dtype = \"fp8\"\n"
        ));
        let calls = priced(&step.unwrap_or_else(|faults| panic!("{faults:#?}"))).calls;
        for (call, rate) in calls.iter().zip([out / SCALES, back]) {
            assert_eq!(call.algorithm, NODE_LIMITED);
            let (expected, logical) =
                (call.expected.as_ref().unwrap().0, call.traffic.unwrap().logical);
            let measured = logical.0 / (rate * 1e9);
            assert!((measured / expected.time.0 - 1.0).abs() < 0.2, "{ranks} ranks: {expected:?}");
            assert!(
                expected.low.0 < measured && measured < expected.high.0,
                "{measured} {expected:?}"
            );
        }
    }
}

/// Low-latency kernels over nodes take what was published, for the machines of those measurements alone, and
/// their rate is that of all copies, as DeepEP's table has it.
#[test]
fn tokens_over_nodes_take_what_was_published() {
    let of = |profile: &str, ranks: u32| {
        let step = read_step(&format!(
            "[step.x]\nparams = \"8B\"\nmode = \"decoding\"\nprofile = \"{profile}\"\nlayers = 1\n\
             hidden = 7168\nbatch = 128\ndp = {ranks}\nep = {ranks}\nexperts = 256\ntop_k = 8\n\
             dispatch_dtype = \"fp8\"\nall2all = \"deepep-ll\"\n"
        ));
        step.unwrap_or_else(|faults| panic!("{faults:#?}"))
    };
    for (ranks, times, rates) in
        [(8, [77.0, 114.0], [98.0, 127.0]), (16, [118.0, 195.0], [63.0, 74.0])]
    {
        let step = of("hgx-h800", ranks);
        let registry = Registry::builtin();
        let view = crate::answer::plan::plan(&registry, &[step], &Tweak::default(), false).unwrap();
        for ((call, time), rate) in view.steps[0].calls.iter().zip(times).zip(rates) {
            assert!((call.time_s * 1e6 / time - 1.0).abs() < 0.01, "{ranks}: {}", call.time_s);
            let logical = call.experts.as_ref().unwrap().logical / 1e9;
            assert!((logical / rate - 1.0).abs() < 0.05, "{ranks}: {logical} for {rate}");
        }
    }
    for (profile, ranks) in [("dgx-a100", 16), ("hgx-h800", 4), ("p5.48xlarge", 16)] {
        let error = price(&Registry::builtin(), &of(profile, ranks), &Tweak::default()).err();
        let error = error.unwrap_or_else(|| panic!("{profile} {ranks}")).to_string();
        assert!(error.contains("nobody measured deepep-ll"), "{error}");
    }
}

#[test]
fn an_engine_decodes_by_its_own_kernels() {
    let of = |more: &str| {
        step(&format!("mode = \"decoding\"\nprofile = \"dgx-h100\"\nbatch = 16\ntp = 8\n{more}"))
    };
    let (library, engine) = (priced(&of("")), priced(&of("engine = \"sglang@0.5.23\"\n")));
    assert_eq!(engine.calls[0].algorithm, "custom-v2/one-shot-push");
    assert!(engine.calls[0].total.0 < 0.5 * library.calls[0].total.0, "{engine:?}");
    let says = |more: &str| {
        let plan = crate::answer::plan::plan;
        let view = plan(&Registry::builtin(), &[of(more)], &Tweak::default(), false).unwrap();
        view.steps[0].notes.iter().any(|note| note.contains("engine = \"vllm\""))
    };
    assert!(says("") && !says("engine = \"vllm\"\n"), "whose kernels are priced");
    let faults =
        read_step("[step.x]\nparams = \"8B\"\nhidden = 64\nprofile = \"h100\"\nengine = \"no\"\n");
    assert!(faults.err().unwrap().iter().any(|f| f.contains("not an inference engine")));
}
