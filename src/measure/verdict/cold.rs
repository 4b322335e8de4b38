//! Rows of nccl-tests whose out-of-place time is that of a first call.
//!
//! A row times the same calls twice, first out of place and then in place. The first call of an algorithm, a protocol or
//! a kernel sets it up, and few warm-up calls do not hide that: the out-of-place half of a row is late then, and the
//! in-place half is not. What makes calls slow makes both slow, since both run the same algorithm over the same
//! links. A run that something disturbs now and then looks the same as long as it disturbs few rows: the note names
//! them.

use super::Point;
use crate::base::quantity::{Bytes, Seconds};

/// Of so many rows one may be cold: in more of them something else is slow.
const ROWS: usize = 4;

/// Lets the in-place times of cold rows count, and says of which.
pub(super) fn warmed(points: &mut [Point], in_place: &[(Bytes, Seconds)]) -> Option<String> {
    let warm = |point: &Point| {
        let (_, time) = in_place.iter().find(|(size, _)| *size == point.size)?;
        (point.is_late() && *time <= point.expected.high).then_some(*time)
    };
    let cold: Vec<(usize, Seconds)> =
        points.iter().enumerate().filter_map(|(i, point)| Some((i, warm(point)?))).collect();
    if cold.is_empty() || cold.len() > points.len() / ROWS {
        return None;
    }
    let mut rows = Vec::new();
    for (i, time) in cold {
        let point = &mut points[i];
        let out = std::mem::replace(&mut point.measured, time);
        point.cold = Some(out);
        rows.push(format!("{} ({out} out of place, {time} in place)", point.size));
    }
    let (count, what) = if rows.len() > 1 { ("", "rows") } else { ("a ", "row") };
    Some(format!(
        "{count}cold {what}: {}: a first call sets up what it needs, so the in-place time counts",
        rows.join(", ")
    ))
}
