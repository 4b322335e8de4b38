//! A job's step over time: the parts that it waits for, and next to them what computation hides.

use super::{Axis, Hue, Mark, Picture, Series, Unit};
use crate::answer::job::JobView;
use crate::base::quantity::Seconds;

/// The parts of the step's time; none if only memory was requested.
#[must_use]
pub fn step(report: &JobView) -> Option<Picture> {
    let total = report.step_s?;
    let mut series = Vec::new();
    let mut marks = Vec::new();
    // Hidden time is drawn below the computation, at its start.
    let (mut now, mut beside) = (0.0, 0.0);
    for (i, part) in report.parts.iter().enumerate() {
        let hue = match part.what {
            "pipeline bubble" | "uneven stages" => Hue::Quiet,
            _ => Hue::Of(i),
        };
        let signs = ['█', '░', '▒', '▓', '▞', '▚', '◆', '◇', '●'];
        series.push(Series { name: part.what.to_owned(), sign: signs[i % signs.len()], hue });
        let rows = [(0, &mut now, part.exposed_s, ""), (1, &mut beside, part.hidden_s, ", hidden")];
        for (row, from, lasts, how) in rows {
            if lasts <= 0.0 {
                continue;
            }
            marks.push(Mark::Block {
                series: i,
                x: (*from, *from + lasts),
                y: (f64::from(row) + 0.14, f64::from(row) + 0.86),
                label: part.what.to_owned(),
                title: format!("{}{how}: {}", part.what, Seconds(lasts)),
                apart: true,
                strong: false,
            });
            *from += lasts;
        }
    }
    marks.push(Mark::Text { x: now, y: 0.5, label: Seconds(total).to_string() });
    let hides = beside > 0.0;
    let rows = ["step", "hidden"].into_iter().take(1 + usize::from(hides));
    let layout = match report.layout.is_empty() {
        true => String::new(),
        false => format!(", {}", report.layout.join(", ")),
    };
    Some(Picture {
        title: format!("{}: a step over time", report.name),
        subtitle: format!("{} GPUs of {}{layout}", report.gpus, report.machine),
        x: Axis::linear("time", Unit::Seconds, [now, beside].into_iter()),
        y: Axis::rows("", rows.map(str::to_owned).collect()),
        series,
        marks,
        notes: vec!["sums over the step: parts alternate from layer to layer".to_owned()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::job::{Asked, jobs};
    use crate::model::algorithm::Registry;
    use crate::plan::table::OneText;

    const JOB: &str = "model = \"llama3-8b\"\nmachine = \"dgx-h100\"\ngpus = 16\nsharding = \"zero1\"\n\
        layout = { tp = 2, pp = 2, dp = 4 }\noverlap = [\"dp\"]\n\
        batch = { global = 32, micro = 1, sequence = 8192 }\n";

    /// Blocks of a row follow each other, the first row as long as the step.
    #[test]
    fn blocks_fill_the_step() {
        let files = ["job.toml".to_owned()];
        let asked = Asked { files: &files, ..Asked::default() };
        let report = jobs(&Registry::builtin(), &OneText(JOB), &asked).unwrap().jobs.remove(0);
        let picture = step(&report).unwrap();
        let mut ends = [0.0, 0.0];
        for mark in &picture.marks {
            let Mark::Block { x, y, .. } = mark else { continue };
            let row = usize::from(y.0 > 1.0);
            assert_eq!(x.0, ends[row]);
            ends[row] = x.1;
        }
        assert!((ends[0] / report.step_s.unwrap() - 1.0).abs() < 1e-9, "{ends:?}");
        assert!(ends[1] > 0.0 && super::super::svg(&picture).contains("dp, hidden: "));
    }
}
