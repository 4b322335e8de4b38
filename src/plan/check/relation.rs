//! Compares budgets with each other: 1,024 GPUs within 2 % of 512.
//!
//! Collectives are compared by time; steps and jobs by GPU-seconds per token, so that different
//! batches and different numbers of GPUs are comparable. The expected values of both are compared,
//! without bands: an error of the model affects both. Of a budget of logs it is the measured time, at the one size of
//! both.

use super::outcome::{Outcome, far, unless_fault, useful};
use super::standing::Number;
use super::{Budget, Limit, Options, Subject, Within};
use crate::base::error::{Error, Result};
use crate::base::quantity::Ratio;
use crate::plan::table::Faults;

/// The outcomes, with relations judged now that all budgets are priced. If an outcome is missing,
/// its fault is kept.
pub(super) fn related(
    budgets: &[Budget],
    priced: Vec<Option<Outcome>>,
    options: Options,
    faults: &Faults,
) -> Vec<Outcome> {
    let all: Vec<(&Budget, Option<Outcome>)> = budgets.iter().zip(priced).collect();
    let judged = |one: &(&Budget, Option<Outcome>)| -> Option<Outcome> {
        let (budget, Some(outcome)) = one else { return None };
        let Some(Limit::Within(_)) = &budget.limit else { return Some(outcome.clone()) };
        let found = held(budget, outcome, &all);
        let near = |outcome| match far(budget, &outcome) {
            Some(error) => Err(error),
            None => useful(budget, outcome),
        };
        let found = found.and_then(|o| if options.updating { Ok(o) } else { near(o) });
        unless_fault(found, budget, faults)
    };
    all.iter().filter_map(judged).collect()
}

/// Refuses budgets whose limits are too far from the model to fail; of a list only if all of its members are.
pub(super) fn near(budgets: &[Budget], priced: &[Option<Outcome>], faults: &Faults) {
    let far = |(budget, priced): (&Budget, &Option<Outcome>)| {
        priced.as_ref().and_then(|outcome| far(budget, outcome))
    };
    let far: Vec<Option<Error>> = budgets.iter().zip(priced).map(far).collect();
    // The budgets of a list have one limit, at one place.
    let list = |b: &Budget| (b.file.clone(), b.place.line, b.place.column);
    let mut refused = std::collections::BTreeSet::new();
    let held: std::collections::BTreeSet<_> =
        budgets.iter().zip(&far).filter(|(_, far)| far.is_none()).map(|(b, _)| list(b)).collect();
    for (budget, error) in budgets.iter().zip(&far) {
        if let Some(error) = error.as_ref().filter(|_| !held.contains(&list(budget)))
            && refused.insert(list(budget))
        {
            faults.borrow_mut().push(budget.fault(error));
        }
    }
}

fn held(budget: &Budget, outcome: &Outcome, all: &[(&Budget, Option<Outcome>)]) -> Result<Outcome> {
    let Some(Limit::Within(within)) = &budget.limit else { return Ok(outcome.clone()) };
    let of: Vec<_> =
        all.iter().filter(|(b, _)| b.name == within.of || b.heading == within.of).collect();
    let (other, known) = match of[..] {
        [(other, Some(known))] => (other, known),
        // Its own fault is already reported, or it has none.
        [] => {
            return Err(Error::input(format!("there is no budget `{}`", within.of))
                .help("name another budget: within = \"2% of NAME\""));
        }
        [(other, None)] => {
            return Err(Error::input(format!("`{}` has no time to compare with", other.name))
                .help("fix it first"));
        }
        _ => {
            let names: Vec<&str> = of.iter().map(|(b, _)| b.name.as_str()).collect();
            return Err(Error::input(format!("`{}` is a list of budgets", within.of))
                .help(format!("name one of them: {}", names.join(", "))));
        }
    };
    let (own, theirs) = (effort(budget, outcome)?, effort(other, known)?);
    if is_circle(budget, all) {
        let what =
            format!("the budget can never fail: it depends on itself, by way of `{}`", within.of);
        return Err(Error::input(what).help("name a budget that has a limit of its own"));
    }
    if own.what != theirs.what {
        return Err(Error::input(format!(
            "a {} cannot be compared with a {}",
            own.what, theirs.what
        ))
        .help("compare collectives with collectives, steps with steps"));
    }
    let is_measured = matches!(other.limit, Some(Limit::Measured(_)));
    if is_measured {
        of_one_size(budget, other)?;
    }
    let mut outcome = outcome.clone();
    outcome.limit = Some(Number::Ratio(Ratio(1.0 + within.most.0)));
    outcome.note = match is_measured {
        true => format!("by the expected time and the measured one of `{}`", other.name),
        false => own.note.to_owned(),
    };
    let theirs_unfit = || Some(format!("`{}`: {}", other.name, known.unfit.as_ref()?));
    outcome.unfit = outcome.unfit.or_else(theirs_unfit);
    let mut outcome = outcome.judged([Number::Ratio(Ratio(own.value / theirs.value)); 3], None);
    outcome.band = None;
    Ok(outcome)
}

/// Refuses to compare a call with logs of other sizes: their time is that of one size, and not always of the same one.
fn of_one_size(budget: &Budget, measured: &Budget) -> Result<()> {
    let size = |budget: &Budget| match &budget.subject {
        Subject::Call(call) => call.size,
        _ => None,
    };
    match (size(budget), size(measured)) {
        (own, theirs) if own == theirs => Ok(()),
        (Some(own), None) => {
            let what =
                format!("`{}` is of all sizes of its logs, and this one of {own}", measured.name);
            Err(Error::input(what).help(format!("write size = \"{own}\" in `{}`", measured.name)))
        }
        (_, theirs) => {
            let theirs = theirs.unwrap_or_default();
            let what = format!("`{}` measures another size: {theirs}", measured.name);
            Err(Error::input(what).help("give both one size"))
        }
    }
}

/// Whether budgets that are within each other lead from one back to itself.
fn is_circle(budget: &Budget, all: &[(&Budget, Option<Outcome>)]) -> bool {
    let mut at = budget;
    for _ in all {
        let Some(Limit::Within(Within { of, .. })) = &at.limit else { return false };
        let Some((next, _)) = all.iter().find(|(b, _)| b.name == *of || b.heading == *of) else {
            return false;
        };
        if std::ptr::eq(*next, budget) {
            return true;
        }
        at = next;
    }
    false
}

/// The compared quantity.
struct Effort {
    value: f64,
    what: &'static str,
    note: &'static str,
}

fn effort(budget: &Budget, outcome: &Outcome) -> Result<Effort> {
    let time = outcome.time.ok_or_else(|| {
        Error::input(format!("`{}` has no time to compare with", budget.name))
            .help("name a budget that has a time")
    })?;
    let tokens = match &budget.subject {
        Subject::Call(_) => {
            let note = "by expected times of both";
            return Ok(Effort { value: time.0, what: "collective", note });
        }
        Subject::Step(step) => step.tokens_of_all(),
        Subject::Job(subject) => subject.tokens(),
        Subject::Served(_) => {
            return Err(Error::input(format!("`{}` is for a server", budget.name)).help(
                "compare collectives, steps and jobs: give the server a max_time of its own",
            ));
        }
    };
    let note = "GPU-time per token, by expected times of both";
    Ok(Effort { value: time.0 * outcome.ranks as f64 / tokens, what: "step", note })
}
