//! Ideal costs: prices, lower bounds, crossovers, simulated schedules.

pub mod bound;
pub mod check;
pub mod crossover;
pub mod optimum;
pub mod price;
pub mod rank;
pub mod simulate;
pub mod traffic;
