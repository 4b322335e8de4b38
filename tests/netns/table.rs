//! What was to be seen, and what was.

use std::fmt::{self, Write as _};

/// The rows so far.
#[derive(Default)]
pub struct Table(Vec<Row>);

/// A figure with its limits.
struct Row {
    quantity: String,
    hard: String,
    aim: String,
    seen: String,
    verdict: Verdict,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Reached,
    Held,
    Failed,
    /// The limit did not hold, on a machine that was so busy that nothing follows.
    Disturbed,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Reached => "aim reached",
            Self::Held => "holds",
            Self::Failed => "DOES NOT HOLD",
            Self::Disturbed => "not judged: others had the processors",
        })
    }
}

impl Table {
    /// A relative error, `worst` of those that `seen` names, in parts of one.
    pub fn within(
        &mut self,
        quantity: impl fmt::Display,
        (hard, aim): (f64, f64),
        worst: f64,
        seen: impl fmt::Display,
    ) {
        let verdict = match worst.abs() {
            error if error <= aim => Verdict::Reached,
            error if error <= hard => Verdict::Held,
            _ => Verdict::Failed,
        };
        let limit = |x: f64| format!("±{} %", 100.0 * x);
        self.add(quantity, limit(hard), limit(aim), seen, verdict);
    }

    /// Takes the last row's failure back: while it was measured, others had this part of the
    /// processors' time.
    pub fn excuse(&mut self, others: Option<f64>) {
        let Some((row, others)) = self.0.last_mut().zip(others) else { return };
        if row.verdict == Verdict::Failed {
            row.verdict = Verdict::Disturbed;
            eprintln!("{}: not judged, others had {:.1} %", row.quantity, 100.0 * others);
        }
    }

    /// A number that must not be larger, in parts of one.
    pub fn at_most(
        &mut self,
        quantity: impl fmt::Display,
        (hard, aim): (f64, f64),
        worst: f64,
        seen: impl fmt::Display,
    ) {
        let verdict = match worst {
            error if error <= aim => Verdict::Reached,
            error if error <= hard => Verdict::Held,
            _ => Verdict::Failed,
        };
        let limit = |x: f64| format!("≤ {} %", 100.0 * x);
        self.add(quantity, limit(hard), limit(aim), seen, verdict);
    }

    /// Something that must be so.
    pub fn must(
        &mut self,
        quantity: impl fmt::Display,
        hard: &str,
        holds: bool,
        seen: impl fmt::Display,
    ) {
        let verdict = if holds { Verdict::Reached } else { Verdict::Failed };
        self.add(quantity, hard.to_owned(), String::new(), seen, verdict);
    }

    fn add(
        &mut self,
        quantity: impl fmt::Display,
        hard: String,
        aim: String,
        seen: impl fmt::Display,
        verdict: Verdict,
    ) {
        let (quantity, seen) = (quantity.to_string(), seen.to_string());
        let row = Row { quantity, hard, aim, seen, verdict };
        // At once, for whoever watches, and for when a later row breaks off.
        eprintln!("{row}");
        self.0.push(row);
    }

    /// Prints all and fails where a limit did not hold.
    pub fn end(self) {
        let mut text =
            String::from("\n| quantity | limit | aim | seen | |\n|---|---|---|---|---|\n");
        for row in &self.0 {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{row}");
        }
        eprintln!("{text}");
        let failed: Vec<&str> = self
            .0
            .iter()
            .filter(|row| row.verdict == Verdict::Failed)
            .map(|row| row.quantity.as_str())
            .collect();
        assert!(failed.is_empty(), "limits that do not hold: {}", failed.join("; "));
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { quantity, hard, aim, seen, verdict } = self;
        write!(f, "| {quantity} | {hard} | {aim} | {seen} | {verdict} |")
    }
}

/// A part of one with its sign, in percent.
pub fn percent(part: f64) -> String {
    format!("{:+.2} %", 100.0 * part)
}
