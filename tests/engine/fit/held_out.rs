//! What the fitted link expects of algorithms and sizes that it was not shown, over recorded runs.
//!
//! Each operation of a recording is predicted by a fit of all others, each fourth size by a fit of
//! the other three: by the function that expectations come from, `price::OnLinks`.
//!
//! ```sh
//! cargo test --test engine fit -- --ignored --nocapture report          # the study's raw recordings
//! COLLCOST_SAMPLES=local.samples.jsonl cargo test …              # and a calibration's
//! ```

use std::collections::BTreeMap;
use std::path::Path;

use collcost::base::quantity::{Bandwidth, Bytes, Ratio, Seconds, Volume};
use collcost::cost::price::OnLinks;
use collcost::machine::fabric::{Fabric, Tier};
use collcost::machine::link::Traffic;
use collcost::machine::sample::{Op, Origin};
use collcost::measure::fit::{Asked, Fitted, Point, Statistic, fit_points};
use collcost::model::algorithm::Registry;
use flate2::read::GzDecoder;

use super::recorded::recorded_points::points;

const RECORDINGS: [&str; 4] = ["200mb_n2_q", "200mb_n4_q", "500m_n4_q", "1g_n4_q"];

/// One time with what was expected of it.
struct Told {
    size: u64,
    /// Expected over measured, minus 1.
    error: f64,
    /// Whether it lies in the band that the fit stated.
    inside: bool,
}

fn fitted(points: Vec<Point>) -> Fitted {
    let origin = Origin { transport: Some("tcp".to_owned()), ..Origin::default() };
    // Intervals are not looked at here.
    let asked = Asked { statistic: Some(Statistic::Typical), draws: 2, ..Asked::default() };
    fit_points(&Registry::builtin(), points, &origin, &asked).expect("it fits")
}

fn machine(fit: &Fitted) -> Fabric {
    let link = Tier::new("link", Seconds(1.0), Bandwidth(1.0));
    Fabric {
        gamma: fit.gamma.map(|gamma| gamma.value),
        ..Fabric::new(vec![Tier { link: fit.measured.clone(), ..link }])
    }
}

/// What the machine of `fit` is expected to take for the run of `point`; none for messages alone.
fn expected(fit: &Fitted, point: &Point) -> Option<Seconds> {
    let Op::Run(run) = &point.op else { return None };
    let registry = Registry::builtin();
    let algorithm = registry.find(run.collective, &run.algorithm).unwrap().algorithm;
    let links = OnLinks::new(algorithm, &run.shape(point.ranks), &machine(fit)).unwrap();
    Some(links.at(Volume::from(point.size)))
}

fn tell(fit: &Fitted, held: &[Point]) -> Vec<Told> {
    let tell = |point: &Point| {
        let time = match point.op {
            Op::Shift => {
                let each_way = Traffic { both_ways: true, ..Traffic::ALONE };
                fit.measured.times()?.message(Volume::from(point.size), each_way)
            }
            _ => expected(fit, point)?,
        };
        let band = fit.bands.of(time, fit.alpha())?;
        let (low, high) = (band.low(), band.high());
        let part = point.typical / time;
        let inside = (low.0..=high.0).contains(&part.0);
        Some(Told { size: point.size.0, error: (time / point.typical).0 - 1.0, inside })
    };
    held.iter().filter_map(tell).collect()
}

/// Every point predicted by a fit of those that have another mark.
fn held_out<K: PartialEq>(points: &[Point], mark: impl Fn(&Point) -> K) -> Vec<Told> {
    let mut marks: Vec<K> = Vec::new();
    for point in points {
        let own = mark(point);
        if !marks.contains(&own) {
            marks.push(own);
        }
    }
    let of = |held: K| {
        let (own, shown): (Vec<Point>, Vec<Point>) =
            points.iter().cloned().partition(|p| mark(p) == held);
        tell(&fitted(shown), &own)
    };
    marks.into_iter().flat_map(of).collect()
}

fn by_algorithm(points: &[Point]) -> Vec<Told> {
    let runs = |p: &Point| matches!(p.op, Op::Run(_) | Op::Shift);
    // Messages there and back only show the bucket; every fit may see them.
    held_out(points, |p| if runs(p) { p.op.to_string() } else { String::new() })
}

fn by_size(points: &[Point]) -> Vec<Told> {
    let mut sizes: Vec<u64> = points.iter().map(|p| p.size.0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    held_out(points, |p| sizes.partition_point(|s| *s < p.size.0) % 4)
}

/// The median and the ninth decile of |error|, and how many.
fn errors<'a>(told: impl Iterator<Item = &'a Told>) -> (f64, f64, usize) {
    let mut errors: Vec<f64> = told.map(|t| t.error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let at = |part: f64| errors[(part * (errors.len() - 1) as f64).round() as usize];
    (at(0.5), at(0.9), errors.len())
}

fn all(of: impl Fn(&[Point]) -> Vec<Told>) -> Vec<Told> {
    RECORDINGS.iter().flat_map(|recording| of(&points(recording))).collect()
}

#[track_caller]
fn holds(what: &str, told: &[Told]) {
    let (median, p90, count) = errors(told.iter().filter(|t| t.size >= 4096));
    println!("{what} from 4 KiB: {:.1} % and {:.1} % of {count}", 100.0 * median, 100.0 * p90);
    assert!(median <= 0.05 && p90 <= 0.20, "{what}: {median} {p90}");
    let (median, _, count) = errors(told.iter().filter(|t| t.size == 512));
    println!("{what} at 512 B: {:.1} % of {count}", 100.0 * median);
    assert!(median <= 0.25, "{what}: {median}");
}

#[test]
fn algorithms_that_no_fit_saw_are_expected_and_lie_in_its_band() {
    let told = all(by_algorithm);
    holds("algorithms", &told);
    let inside = told.iter().filter(|t| t.inside).count() as f64 / told.len() as f64;
    println!("in the band: {:.1} % of {}", 100.0 * inside, told.len());
    assert!((0.75..=0.85).contains(&inside), "{inside}");
}

#[test]
fn sizes_that_no_fit_saw_are_expected() {
    holds("sizes", &all(by_size));
}

#[test]
fn what_a_fit_predicts_is_what_is_expected_on_its_link() {
    for recording in RECORDINGS {
        let fit = fitted(points(recording));
        let mut seen = 0;
        for (point, predicted) in fit.points.iter().zip(&fit.predicted) {
            let Some(time) = expected(&fit, point) else { continue };
            let off = (time / predicted.unwrap()).0 - 1.0;
            assert!(off.abs() < 1e-12, "{recording} {} {}: {off:e}", point.op, point.size);
            seen += 1;
        }
        assert!(seen > 40, "{recording}: {seen}");
    }
}

#[test]
fn a_bucket_says_what_messages_there_and_back_take() {
    // In the fourth ranks wait for CPUs, which it is marked for.
    for recording in &RECORDINGS[..3] {
        let fit = fitted(points(recording));
        assert!(fit.measured.bucket.is_some(), "{recording}");
        let turns = fit.points.iter().zip(&fit.predicted).filter(|(p, _)| p.op == Op::OneWay);
        let off = |(p, predicted): (&Point, &Option<Seconds>)| {
            (p.size.0 >= 4096).then(|| Told {
                size: p.size.0,
                error: (predicted.unwrap() / p.typical).0 - 1.0,
                inside: true,
            })
        };
        let told: Vec<Told> = turns.filter_map(off).collect();
        let (median, p90, count) = errors(told.iter());
        println!("{recording}: {:.1} % and {:.1} % of {count}", 100.0 * median, 100.0 * p90);
        // Read as one way of a line they were off by up to a half, and by two at the bucket's size.
        assert!(median <= 0.05, "{recording}: {median}");
    }
}

/// What the study calls its operations.
const NAMES: [(&str, &str); 10] = [
    ("pp", "one-way"),
    ("sr", "shift"),
    ("ring", "allreduce/ring"),
    ("rd", "allreduce/recursive-doubling"),
    ("rab", "allreduce/rabenseifner"),
    ("rs", "reducescatter/ring"),
    ("ag", "allgather/ring"),
    ("bcast", "broadcast/binomial"),
    ("bruck", "allgather/bruck"),
    ("a2a", "alltoall/pairwise"),
];

/// The points of one of the study's raw files: the median of all runs.
fn raw(file: &Path) -> Vec<Point> {
    let mut reader = csv::Reader::from_reader(GzDecoder::new(std::fs::File::open(file).unwrap()));
    let mut times: BTreeMap<(String, u32, u64), Vec<f64>> = BTreeMap::new();
    for row in reader.deserialize() {
        let row: BTreeMap<String, String> = row.expect("a row");
        let number = |name: &str| row[name].parse::<f64>().expect("a number");
        let Some((_, op)) = NAMES.iter().find(|(name, _)| *name == row["op"]) else { continue };
        let time = if row["op"] == "pp" { number("t0local") / 2.0 } else { number("tglob") };
        let key = ((*op).to_owned(), number("n") as u32, number("M") as u64);
        times.entry(key).or_default().push(time);
    }
    let point = |((op, ranks, size), mut times): ((String, u32, u64), Vec<f64>)| {
        times.sort_by(f64::total_cmp);
        let at = |part: f64| Seconds(times[(part * (times.len() - 1) as f64) as usize]);
        Point {
            op: op.parse().expect("an operation"),
            ranks,
            size: Bytes(size),
            count: times.len(),
            blocks: 2,
            disturbed: 0,
            typical: at(0.5),
            by_stretch: Vec::new(),
            lost: false,
            floor: at(0.1),
            precision: Ratio(0.02),
            spread: None,
            icc: None,
            drift: None,
            waited: None,
        }
    };
    times.into_iter().map(point).collect()
}

fn print(what: &str, told: &[Told]) {
    let inside = told.iter().filter(|t| t.inside).count() as f64 / told.len().max(1) as f64;
    println!("{what}: {:.0} % of {} in the band", 100.0 * inside, told.len());
    for (name, from, to) in [
        ("to 64 B", 0, 64),
        ("512 B", 512, 512),
        ("1 to 4 KiB", 513, 4095),
        ("4 KiB on", 4096, u64::MAX),
    ] {
        let own: Vec<&Told> = told.iter().filter(|t| (from..=to).contains(&t.size)).collect();
        if !own.is_empty() {
            let (median, p90, count) = errors(own.into_iter());
            println!("  {name:>10}  {:6.1} %  {:6.1} %  of {count}", 100.0 * median, 100.0 * p90);
        }
    }
}

#[test]
#[ignore = "a report over files beside the repository, or those of COLLCOST_SAMPLES"]
fn report() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for recording in RECORDINGS {
        let name = format!("shared/calibration/samples/a2_{recording}.csv.gz");
        let found = ["..", "../.."].map(|up| root.join(up).join(&name));
        let Some(file) = found.into_iter().find(|file| file.exists()) else { continue };
        let points = raw(&file);
        print(&format!("{recording}, algorithms"), &by_algorithm(&points));
        print(&format!("{recording}, sizes"), &by_size(&points));
    }
    let Ok(file) = std::env::var("COLLCOST_SAMPLES") else { return };
    let text = std::fs::read_to_string(&file).unwrap();
    let (_, samples) = collcost::machine::sample::read(&text, &file).unwrap();
    let asked = Asked { draws: 2, ..Asked::default() };
    let fit = collcost::measure::fit::fit(&Registry::builtin(), &samples, &asked).unwrap();
    println!("{:?}", fit.measured);
    print("algorithms", &by_algorithm(&fit.points));
    print("sizes", &by_size(&fit.points));
    if let Some(line) = fit.errors_of_line {
        println!("α and the last slope alone: {:?}", line.all);
    }
}
