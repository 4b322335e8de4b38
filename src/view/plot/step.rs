//! A step over time: the parts that it waits for, and below them each collective, of which computation hides
//! a part.

use super::{Axis, Hue, Mark, Picture, Series, Unit};
use crate::answer::job::{JobView, SentView};
use crate::answer::plan::{CallView, StepView};
use crate::base::order::falling;
use crate::base::quantity::{Seconds, Volume};

/// More collectives than this are drawn as one for each part, except the longest.
const MOST: usize = 24;

struct Part {
    what: String,
    exposed: f64,
    hidden: f64,
    calls: Vec<Call>,
}

struct Call {
    name: String,
    title: String,
    total: f64,
    exposed: f64,
}

/// The step of a job; none if only memory was requested.
#[must_use]
pub fn step(report: &JobView) -> Option<Picture> {
    let of = |part: &'static str| report.calls.iter().filter(move |c| c.part == part).map(sent);
    let part = |p: &crate::answer::job::PartView| Part {
        what: p.what.to_owned(),
        exposed: p.exposed_s,
        hidden: p.hidden_s,
        calls: of(p.what).collect(),
    };
    let parts = report.parts.iter().map(part).collect();
    let on = format!("{} GPUs of {}", report.gpus, report.machine);
    Some(drawn(&report.name, on, &report.layout, report.step_s?, parts))
}

/// A step of a plan.
#[must_use]
pub fn of_plan(report: &StepView) -> Picture {
    let computes = [("compute", report.compute_s), ("pipeline bubble", report.bubble_s)];
    let plain = |(what, time): (&str, Option<f64>)| {
        let exposed = time.filter(|t| *t > 0.0)?;
        Some(Part { what: what.to_owned(), exposed, hidden: 0.0, calls: Vec::new() })
    };
    let mut parts: Vec<Part> = computes.into_iter().filter_map(plain).collect();
    for one in &report.calls {
        let what = one.axis.id();
        let at = parts.iter().position(|part| part.what == what).unwrap_or_else(|| {
            let (what, calls) = (what.to_owned(), Vec::new());
            parts.push(Part { what, exposed: 0.0, hidden: 0.0, calls });
            parts.len() - 1
        });
        parts[at].exposed += one.exposed_s;
        parts[at].hidden += one.total_s - one.exposed_s;
        parts[at].calls.push(call(one));
    }
    let on = format!("{} ranks of {}", report.ranks, report.machine);
    drawn(&report.name, on, &report.layout, report.step_s, parts)
}

fn sent(sent: &SentView) -> Call {
    let repeated = repeated(sent.calls, sent.size_bytes);
    let (what, each) = (sent.collective.name(), Seconds(sent.time_s));
    Call {
        name: format!("{} {what}, {repeated}", sent.part),
        title: format!("{}: {repeated} {what} over {} ranks, {each} each", sent.part, sent.ranks),
        total: sent.total_s,
        exposed: sent.exposed_s,
    }
}

fn call(call: &CallView) -> Call {
    let repeated = match call.in_buckets && call.calls > 1.0 {
        true => format!("{} in {:.0} calls", Volume(call.size_bytes * call.calls), call.calls),
        false => repeated(call.calls, call.size_bytes),
    };
    let (what, each) = (call.collective.name(), Seconds(call.time_s));
    Call {
        name: format!("{}, {repeated}", call.name),
        title: format!(
            "{}: {repeated} {what} over {} ranks by {}, {each} each",
            call.name, call.ranks, call.algorithm
        ),
        total: call.total_s,
        exposed: call.exposed_s,
    }
}

/// Calls of a size; those that are not in every step are a fraction.
fn repeated(calls: f64, bytes: f64) -> String {
    let size = Volume(bytes);
    match calls {
        1.0 => size.to_string(),
        _ if calls.fract() == 0.0 => format!("{calls} × {size}"),
        _ => format!("{calls:.2} × {size}"),
    }
}

/// The longest collectives, and for each part one for all others.
fn fewer(parts: &mut [Part]) {
    let mut totals: Vec<f64> = parts.iter().flat_map(|p| &p.calls).map(|c| c.total).collect();
    falling(&mut totals, |total| *total);
    let Some(&least) = totals.get(MOST) else { return };
    for part in parts {
        let calls = std::mem::take(&mut part.calls);
        let (long, short): (Vec<Call>, Vec<Call>) =
            calls.into_iter().partition(|call| call.total > least);
        part.calls = long;
        if !short.is_empty() {
            let name = format!("{}, {} others", part.what, short.len());
            part.calls.push(Call {
                title: name.clone(),
                name,
                total: short.iter().map(|c| c.total).sum(),
                exposed: short.iter().map(|c| c.exposed).sum(),
            });
        }
    }
}

fn drawn(name: &str, on: String, layout: &[String], total: f64, mut parts: Vec<Part>) -> Picture {
    fewer(&mut parts);
    let (mut series, mut marks, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    let mut rows = vec!["step".to_owned()];
    let mut now = 0.0;
    for (i, part) in parts.iter().enumerate() {
        let hue = match part.what.as_str() {
            "pipeline bubble" | "uneven stages" => Hue::Quiet,
            _ => Hue::Of(i),
        };
        let signs = ['█', '░', '▒', '▓', '▞', '▚', '◆', '◇', '●'];
        series.push(Series { name: part.what.clone(), sign: signs[i % signs.len()], hue });
        let block = |row: usize, x: (f64, f64), strong: bool, title: String| {
            let y = (row as f64 + 0.14, row as f64 + 0.86);
            let label = if row == 0 { part.what.clone() } else { String::new() };
            let mark = Mark::Block { series: i, x, y, label, title, apart: true, strong };
            (x.1 > x.0).then_some(mark)
        };
        let title = format!("{}: {}", part.what, Seconds(part.exposed));
        marks.extend(block(0, (now, now + part.exposed), false, title));
        // What is exposed is below the time that the step waits for it, what is hidden below the computation.
        let mut waits = now;
        for call in &part.calls {
            let (row, hidden) = (rows.len(), call.total - call.exposed);
            rows.push(call.name.clone());
            let title = |how: &str, lasts| format!("{}; {how}: {}", call.title, Seconds(lasts));
            let until = waits + call.exposed;
            marks.extend(block(row, (0.0, hidden), false, title("hidden", hidden)));
            marks.extend(block(row, (waits, until), true, title("exposed", call.exposed)));
            waits = until;
            let share = 100.0 * call.exposed / call.total.max(f64::MIN_POSITIVE);
            texts.push((row, format!("{}, {share:.0} % exposed", Seconds(call.total))));
        }
        now += part.exposed;
    }
    let ends = parts.iter().flat_map(|p| &p.calls).map(|c| c.total - c.exposed);
    let x = Axis::linear("time", Unit::Seconds, ends.chain([now]));
    texts.push((0, Seconds(total).to_string()));
    let text = |(row, label)| Mark::Text { x: x.to, y: row as f64 + 0.5, label };
    marks.extend(texts.into_iter().map(text));
    let layout = match layout {
        [] => String::new(),
        all => format!(", {}", all.join(", ")),
    };
    let mut notes = vec!["sums over the step: parts alternate from layer to layer".to_owned()];
    if rows.len() > 1 {
        notes.push("full: the step waits for it; pale, from 0 on: computation hides it".to_owned());
    }
    Picture {
        title: format!("{name}: a step over time"),
        subtitle: format!("{on}{layout}: {} expected", Seconds(total)),
        x,
        y: Axis::rows("", rows),
        series,
        marks,
        notes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::job::{Asked, jobs};
    use crate::answer::plan::plan;
    use crate::model::algorithm::Registry;
    use crate::plan::table::{Machines, OneText};
    use crate::plan::{self, Tweak};

    const JOB: &str = "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 16\nsharding = \"zero1\"\n\
        layout = { tp = 2, pp = 2, dp = 4 }\noverlap = [\"dp\"]\n\
        batch = { global = 32, micro = 1, sequence = 8192 }\n";

    /// The blocks of a row, in order.
    fn row(picture: &Picture, row: usize) -> Vec<(f64, f64)> {
        let of = |mark: &Mark| match mark {
            Mark::Block { x, y, .. } if y.0 as usize == row => Some(*x),
            _ => None,
        };
        picture.marks.iter().filter_map(of).collect()
    }

    fn filled(picture: &Picture, total: f64) {
        let first = row(picture, 0);
        assert!(first.windows(2).all(|w| w[0].1 == w[1].0), "{first:?}");
        assert!((first.last().unwrap().1 / total - 1.0).abs() < 1e-9, "{first:?}");
    }

    /// Blocks of the first row follow each other, as long as the step; each collective waits below its part.
    #[test]
    fn blocks_fill_the_step() {
        let files = ["job.toml".to_owned()];
        let asked = Asked { files: &files, ..Asked::default() };
        let report = jobs(&Registry::builtin(), &OneText(JOB), &asked).unwrap().jobs.remove(0);
        let picture = step(&report).unwrap();
        filled(&picture, report.step_s.unwrap());
        for part in &report.parts {
            let all = |value: fn(&SentView) -> f64| {
                report.calls.iter().filter(|c| c.part == part.what).map(value).sum::<f64>()
            };
            let (waits, total) = (all(|c| c.exposed_s), all(|c| c.total_s));
            if total > 0.0 {
                assert!((waits / part.exposed_s - 1.0).abs() < 1e-9, "{}", part.what);
                let whole = part.exposed_s + part.hidden_s;
                assert!((total / whole - 1.0).abs() < 1e-9, "{}", part.what);
            }
        }
        let svg = super::super::svg(&picture);
        assert!(svg.contains("tp all-reduce, ") && svg.contains("; hidden: "), "{svg}");
    }

    /// Many collectives: the longest stay, the others are one row for each part; nothing is lost.
    #[test]
    fn many_calls_are_few_rows() {
        let mut text = "[step.a]\npreset = \"fsdp-7b\"\n".to_owned();
        for i in 0..80 {
            let size = 1 + i;
            text += &format!(
                "[[step.a.call]]\nname = \"c{i}\"\ncollective = \"allreduce\"\nsize = \"{size}MiB\"\n\
                 group = 8\n"
            );
        }
        let files = OneText(text);
        let asked = plan::Asked::File { name: "collcost.toml", step: None };
        let steps = plan::load(&Machines::new(&files), &asked, &[]).unwrap();
        let report = plan(&Registry::builtin(), &steps, &Tweak::default(), false).unwrap();
        let step = &report.steps[0];
        assert!(step.calls.len() > 80);
        let picture = of_plan(step);
        filled(&picture, step.step_s);
        let super::super::Scale::Rows(rows) = &picture.y.scale else { panic!("rows") };
        assert!(
            rows.len() <= 2 + MOST + 2 && rows.iter().any(|r| r.contains("others")),
            "{rows:?}"
        );
        let drawn: f64 = (1..rows.len()).flat_map(|r| row(&picture, r)).map(|x| x.1 - x.0).sum();
        assert!((drawn / step.messages_s - 1.0).abs() < 1e-9, "{drawn} of {}", step.messages_s);
    }
}
