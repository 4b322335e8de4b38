//! The fit held against recorded runs, and against synthetic ones whose truth is known.

#[path = "fit/command.rs"]
mod command;
#[path = "fit/estimator.rs"]
mod estimator;
#[path = "fit/held_out.rs"]
mod held_out;
#[path = "fit/recorded.rs"]
mod recorded;
#[path = "fit/synthetic.rs"]
mod synthetic;
mod tiers;
