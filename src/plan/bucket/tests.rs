use super::*;
use crate::base::quantity::Seconds;

const RESNET_18: &str = include_str!("../../../tests/data/parameters/resnet18.json");
const RESNET_50: &str = include_str!("../../../tests/data/parameters/resnet50.json");

fn sizes(gradients: &Gradients, rule: &Rule) -> Vec<u64> {
    pack(gradients, rule).iter().map(|b| b.bytes.0).collect()
}

fn ddp(cap: u64) -> Rule {
    let first = Limit::Bytes(Bytes(1 << 20));
    Rule::named("ddp").unwrap().with_cap(Limit::Bytes(Bytes(cap << 20)), Some(first))
}

/// What the imagenet example all-reduced on four GPUs (pytorch issue 48880): its default model is
/// ResNet-18, whose 11,689,512 parameters are the 46,758,048 bytes that the issue's sizes sum to.
#[test]
fn ddp_makes_the_buckets_that_pytorch_reported() {
    let model = Gradients::parse(RESNET_18, DataType::F32).unwrap();
    assert_eq!(model.bytes(), Bytes(4 * 11_689_512));
    assert_eq!(sizes(&model, &ddp(25)), [2_052_000, 28_852_224, 15_853_824]);
    assert_eq!(sizes(&model, &ddp(35)), [2_052_000, 38_297_600, 6_408_448]);
}

/// The same rule on torchvision's ResNet-50, written apart from this code.
#[test]
fn resnet_50_has_five_buckets() {
    let model = Gradients::parse(RESNET_50, DataType::F32).unwrap();
    assert_eq!(model.bytes(), Bytes(4 * 25_557_032));
    let expected = [8_196_000, 31_502_336, 26_255_360, 26_550_272, 9_724_160];
    assert_eq!(sizes(&model, &ddp(25)), expected);
    // A user's cap is the first bucket's too in versions since pull request 121640.
    let cap = Rule::named("ddp").unwrap().with_cap(Limit::Bytes(Bytes(25 << 20)), None);
    assert!(sizes(&model, &cap)[0] >= 25 << 20);
}

#[test]
fn types_fill_side_by_side_and_sparse_ones_stand_alone() {
    let tensor = |dtype, bytes| Tensor { dtype, ..Tensor::new("t", Bytes(bytes)) };
    let mut tensors = vec![
        tensor(DataType::F32, 3 << 20),
        tensor(DataType::Bf16, 1 << 20),
        tensor(DataType::F32, 1 << 20),
        tensor(DataType::Bf16, 512 << 10),
    ];
    tensors[0].sparse = true;
    let packed = pack(&Gradients::Tensors(tensors), &ddp(25));
    let seen: Vec<_> = packed.iter().map(|b| (b.dtype.unwrap().id(), b.tensors.clone())).collect();
    assert_eq!(seen, [("bf16", vec![3, 1]), ("f32", vec![2]), ("f32", vec![0])]);
}

#[test]
fn greedy_stays_within_the_cap() {
    let rule = Rule::named("greedy").unwrap();
    let all = Gradients::alike(1000, Bytes(1_000_000), DataType::F32);
    assert_eq!(sizes(&all, &rule).len(), 39);
    let tight = rule.clone().with_cap(Limit::Bytes(Bytes(25_000_000)), None);
    assert_eq!(sizes(&all, &tight).len(), 40);
    // One that is larger than the cap is alone.
    let odd = [1, 30 << 20, 1].map(|b| Tensor::new("t", Bytes(b))).to_vec();
    assert_eq!(sizes(&Gradients::Tensors(odd), &rule), [1, 30 << 20, 1]);
}

/// XLA passes over a tensor above the threshold, and combines at most 256 (`CombineInstructionsByKey`,
/// xla/service/collective_combiner_utils.h).
#[test]
fn xla_keeps_a_bucket_open_beside_a_large_tensor_and_counts_tensors() {
    let rule = Rule::named("xla").unwrap();
    let list = [1_u64, 2, 31 << 20, 30 << 20, 3].map(|b| Tensor::new("t", Bytes(b)));
    let packed = pack(&Gradients::Tensors(list.to_vec()), &rule);
    let seen: Vec<_> = packed.iter().map(|b| b.tensors.clone()).collect();
    assert_eq!(seen, [vec![4, 3, 1, 0], vec![2]]);
    let many = Gradients::alike(1000, Bytes(4096), DataType::F32);
    let counts: Vec<_> = pack(&many, &rule).iter().map(|b| b.tensors.len()).collect();
    assert_eq!(counts, [256, 256, 256, 232]);
}

#[test]
fn nothing_is_lost_whatever_the_rule() {
    for rule in RULES {
        let model = Gradients::parse(RESNET_50, DataType::Bf16).unwrap();
        let packed = pack(&model, rule);
        let mut tensors: Vec<usize> = packed.iter().flat_map(|b| b.tensors.clone()).collect();
        tensors.sort_unstable();
        assert_eq!(tensors, (0..161).collect::<Vec<_>>(), "{}", rule.id);
        assert_eq!(packed.iter().map(|b| b.bytes.0).sum::<u64>(), model.bytes().0);
        assert!((packed.last().unwrap().ready.0 - 1.0).abs() < 1e-12);
        let smooth = Gradients::Smooth { bytes: Bytes(100_000_001), dtype: DataType::Bf16 };
        assert_eq!(sizes(&smooth, rule).iter().sum::<u64>(), 100_000_001);
    }
}

#[test]
fn calls_wait_for_gradients_and_for_each_other() {
    let bucket = |ready| Bucket {
        tensors: Vec::new(),
        bytes: Bytes(1),
        dtype: None,
        limit: None,
        ready: Ratio(ready),
    };
    let buckets = [0.25, 0.5, 1.0].map(bucket);
    let played = timeline(&buckets, Seconds(8.0), |_| Seconds(3.0));
    let starts: Vec<f64> = played.events.iter().map(|e| e.start.0).collect();
    assert_eq!(starts, [2.0, 5.0, 8.0]);
    assert_eq!((played.calls, played.exposed), (Seconds(9.0), Seconds(3.0)));
}

#[test]
fn the_best_cap_lies_between_latency_and_the_tail() {
    let model = Gradients::Smooth { bytes: Bytes(1 << 30), dtype: DataType::F32 };
    let rule = Rule::named("ddp").unwrap();
    // 1 ms a call and 10 GB/s.
    let time = |b: &Bucket| Seconds(1e-3 + b.bytes.0 as f64 / 1e10);
    let found = caps(&model, &rule, Seconds(0.2), time).unwrap();
    assert!(found.best.cap > found.tried[0].cap && found.best.cap < Bytes(1 << 30), "{found:?}");
    assert!(found.flat.0 <= found.best.cap && found.best.cap <= found.flat.1);
    assert!(found.tried.iter().all(|c| c.exposed >= found.best.exposed));
    assert!(found.tried.iter().any(|c| c.cap == Bytes(25 << 20)));
}

#[test]
fn lists_of_parameters_come_in_several_forms() {
    let parse = |text| Gradients::parse(text, DataType::F32);
    let header = r#"{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[4,2]},"a":[3]}"#;
    let Ok(Gradients::Tensors(found)) = parse(header) else { panic!("it is a list") };
    assert_eq!(
        (found[0].name.as_str(), found[0].bytes, found[1].bytes),
        ("b", Bytes(16), Bytes(12))
    );
    let pairs = r#"[["w",[2,2]],{"name":"e","shape":[8],"dtype":"torch.float16","sparse":true}]"#;
    let Ok(Gradients::Tensors(found)) = parse(pairs) else { panic!("it is a list") };
    assert_eq!((found[0].bytes, found[1].bytes, found[1].sparse), (Bytes(16), Bytes(16), true));
    for wrong in [
        "{}",
        "3",
        "{\"a\":3}",
        "{\"a\":[-1]}",
        "{\"a\":{\"dtype\":\"x\",\"shape\":[1]}}",
        "[[\"a\",[18446744073709551615,2]]]",
    ] {
        let error = parse(wrong).unwrap_err();
        assert!(error.is_input() && error.to_string().lines().count() >= 2, "{wrong}: {error}");
    }
}

/// Megatron's distributed optimizer scatters sums (`start_grad_sync`, param_and_grad_buffer.py).
#[test]
fn rules_name_their_collective() {
    use crate::base::collective::Collective;
    for rule in RULES {
        let scatters = rule.collective == Collective::ReduceScatter;
        assert_eq!(scatters, rule.id == "megatron", "{}", rule.id);
    }
}
