//! Points of recorded runs, from `tests/data/calibration_points.csv`.

use collcost::base::quantity::{Bytes, Ratio, Seconds};
use collcost::measure::fit::Point;

/// The points of one recording.
pub fn points(recording: &str) -> Vec<Point> {
    let text = include_str!("../data/calibration_points.csv");
    let mut reader = csv::ReaderBuilder::new().comment(Some(b'#')).from_reader(text.as_bytes());
    let rows = reader.records().map(|r| r.expect("a row"));
    rows.filter(|r| &r[0] == recording)
        .map(|r| {
            let number = |i: usize| r[i].parse::<f64>().expect("a number");
            Point {
                op: r[1].parse().expect("an operation"),
                ranks: number(2) as u32,
                size: Bytes(number(3) as u64),
                count: number(4) as usize,
                blocks: number(5) as usize,
                disturbed: number(6) as usize,
                typical: Seconds(number(7)),
                by_stretch: Vec::new(),
                lost: false,
                floor: Seconds(number(8)),
                precision: Ratio(number(9)),
                spread: Some(Ratio(number(10))),
                icc: None,
                drift: None,
                waited: Some(Ratio(number(11))),
            }
        })
        .collect()
}
