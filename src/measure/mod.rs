//! What is derived from measurements: fits, expectations, verdicts, mocked runs.

pub mod accuracy;
pub mod expect;
pub mod fit;
pub mod logs;
pub mod mock;
pub mod schedule_of;
pub mod verdict;
