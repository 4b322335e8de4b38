//! What is executed, and its closed form: shapes, formulas, schedules, algorithms.

pub mod algorithm;
pub mod formula;
pub mod operations;
pub mod replay;
pub mod schedule;
