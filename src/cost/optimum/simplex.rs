//! A linear program whose columns are generated on demand.
//!
//! ```text
//!   maximise x   where each commodity has patterns of weight x in all,
//!                and no link carries more than its rate
//! ```
//!
//! A revised simplex method with a dense inverse over doubles finds which columns form the optimum
//! (Dantzig, Wolfe 1960: column generation). Only the choice of columns is used: the solution
//! itself is computed exactly from them ([`Simplex::exactly`]), and proven separately.
//!
//! Right sides are perturbed a little, each by a different amount, so that no step of the search
//! stalls; a basis that is optimal for these is also optimal for the true ones.

use super::exact::solve;
use crate::model::formula::Rational;

/// A column: a slack of a row, a fixed one, or a pattern by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Slack(usize),
    Fixed(usize),
    Pattern(usize),
}

/// A pattern as the program sees it.
#[derive(Debug, Clone)]
pub(super) struct Sparse {
    /// Its entries by row.
    pub entries: Vec<(usize, i64)>,
    /// The owner of the entries, by the caller's number.
    pub pattern: usize,
}

pub(super) struct Simplex {
    rows: usize,
    /// The inverse of the basis, row by row.
    inverse: Vec<f64>,
    /// Right sides, original and perturbed.
    right: Vec<f64>,
    moved: Vec<f64>,
    values: Vec<f64>,
    basis: Vec<Column>,
    /// The first is x.
    fixed: Vec<Vec<(usize, i64)>>,
    patterns: Vec<Sparse>,
    steps: u64,
}

/// The exact solution of a basis: prices row by row, and the values of columns that are not slacks.
/// Each is missing if its fractions have too many digits.
pub(super) struct Exact {
    pub prices: Option<Vec<Rational>>,
    pub values: Option<Vec<Rational>>,
    pub columns: Vec<Column>,
}

/// Values below this count as zero, for rates of about 1.
const TINY: f64 = 1e-9;
/// The most steps per row in one search; some are usual.
const STEPS: usize = 64;

impl Simplex {
    /// A program with these right sides, which are perturbed by about `by`, and with fixed columns,
    /// the first of which is to be maximized.
    pub fn new(right: Vec<f64>, by: impl Fn(f64) -> f64, fixed: Vec<Vec<(usize, i64)>>) -> Self {
        let rows = right.len();
        let mut random = crate::base::random::Random::new(7);
        let mut part = || 1.0 + random.below(1 << 20) as f64 / f64::from(1 << 20);
        let moved: Vec<f64> = right.iter().map(|&right| right + by(right) * part()).collect();
        let mut inverse = vec![0.0; rows * rows];
        (0..rows).for_each(|i| inverse[i * rows + i] = 1.0);
        Self {
            rows,
            inverse,
            right,
            values: moved.clone(),
            moved,
            basis: (0..rows).map(Column::Slack).collect(),
            fixed,
            patterns: Vec::new(),
            steps: 0,
        }
    }

    /// The prices of all rows.
    pub fn prices(&self) -> Vec<f64> {
        match self.basis.iter().position(|&column| column == Column::Fixed(0)) {
            Some(row) => self.inverse[row * self.rows..(row + 1) * self.rows].to_vec(),
            None => vec![0.0; self.rows],
        }
    }

    /// The number of changed entries of the inverse.
    pub fn work(&self) -> u64 {
        self.steps * (self.rows * self.rows) as u64
    }

    /// Whether no pattern is known yet.
    pub fn is_new(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The owner of a pattern's entries.
    pub fn pattern(&self, number: usize) -> usize {
        self.patterns[number].pattern
    }

    /// A pattern's entry in its last row, which is that of its commodity.
    pub fn row(&self, number: usize) -> usize {
        self.patterns[number].entries.last().map_or(0, |entry| entry.0)
    }

    /// The value of a column of the basis, for the original right sides.
    pub fn value(&self, column: Column) -> f64 {
        let Some(row) = self.basis.iter().position(|&one| one == column) else { return 0.0 };
        let line = &self.inverse[row * self.rows..(row + 1) * self.rows];
        line.iter().zip(&self.right).map(|(a, b)| a * b).sum()
    }

    /// The basis in fractions, for these right sides.
    pub fn exactly(&self, right: &[i64]) -> Exact {
        let mut is_tight = vec![true; self.rows];
        let mut columns = Vec::new();
        for &column in &self.basis {
            match column {
                Column::Slack(row) => is_tight[row] = false,
                column => columns.push(column),
            }
        }
        let rows: Vec<usize> = (0..self.rows).filter(|&row| is_tight[row]).collect();
        let mut place = vec![usize::MAX; self.rows];
        rows.iter().enumerate().for_each(|(i, &row)| place[row] = i);
        let mut matrix = vec![vec![0_i64; rows.len()]; rows.len()];
        let mut turned = matrix.clone();
        for (c, &column) in columns.iter().enumerate() {
            for (row, x) in self.entries(column).into_iter().filter(|&(row, _)| is_tight[row]) {
                matrix[place[row]][c] = x;
                turned[c][place[row]] = x;
            }
        }
        let right: Vec<i64> = rows.iter().map(|&row| right[row]).collect();
        let gains: Vec<i64> = columns.iter().map(|&c| i64::from(c == Column::Fixed(0))).collect();
        let prices = solve(&turned, &gains).map(|tight| {
            let mut prices = vec![Rational::from_integer(0); self.rows];
            rows.iter().zip(tight).for_each(|(&row, price)| prices[row] = price);
            prices
        });
        Exact { prices, values: solve(&matrix, &right), columns }
    }

    /// How much x grows with a pattern.
    pub fn gain(&self, pattern: &Sparse, prices: &[f64]) -> f64 {
        -pattern.entries.iter().map(|&(row, x)| x as f64 * prices[row]).sum::<f64>()
    }

    /// Optimizes over the known columns and the further ones, in a limited number of steps: near the
    /// optimum rounding could make them go round.
    pub fn improve(&mut self, mut further: Vec<Sparse>) {
        for _ in 0..STEPS * self.rows {
            let prices = self.prices();
            let mut best = (TINY, None);
            for (i, entries) in self.fixed.iter().enumerate() {
                let cost: f64 = entries.iter().map(|&(row, x)| x as f64 * prices[row]).sum();
                let gain = f64::from(u8::from(i == 0)) - cost;
                if gain > best.0 && !self.basis.contains(&Column::Fixed(i)) {
                    best = (gain, Some(Column::Fixed(i)));
                }
            }
            for (row, &price) in prices.iter().enumerate() {
                if -price > best.0 {
                    best = (-price, Some(Column::Slack(row)));
                }
            }
            let mut chosen = None;
            for (i, pattern) in further.iter().enumerate() {
                let gain = self.gain(pattern, &prices);
                if gain > best.0 {
                    best = (gain, None);
                    chosen = Some(i);
                }
            }
            let column = match (best.1, chosen) {
                (_, Some(i)) if best.1.is_none() => {
                    self.patterns.push(further.swap_remove(i));
                    Column::Pattern(self.patterns.len() - 1)
                }
                (Some(column), _) => column,
                _ => return,
            };
            if !self.enter(column) {
                return;
            }
        }
    }

    /// A column's entries, row by row.
    fn entries(&self, column: Column) -> Vec<(usize, i64)> {
        match column {
            Column::Slack(row) => vec![(row, 1)],
            Column::Fixed(i) => self.fixed[i].clone(),
            Column::Pattern(i) => self.patterns[i].entries.clone(),
        }
    }

    fn enter(&mut self, column: Column) -> bool {
        let n = self.rows;
        let entries = self.entries(column);
        let mut moves = vec![0.0; n];
        for (row, moved) in moves.iter_mut().enumerate() {
            let line = &self.inverse[row * n..(row + 1) * n];
            *moved = entries.iter().map(|&(i, x)| line[i] * x as f64).sum();
        }
        let mut leaving: Option<(f64, usize)> = None;
        for (row, (&value, &moved)) in self.values.iter().zip(&moves).enumerate().take(n) {
            if moved > TINY {
                let room = value.max(0.0) / moved;
                let is_less = leaving.is_none_or(|(least, held)| {
                    room < least - 1e-15 || room <= least + 1e-15 && moved > moves[held]
                });
                if is_less {
                    leaving = Some((room, row));
                }
            }
        }
        let Some((step, out)) = leaving else { return false };
        for (value, moved) in self.values.iter_mut().zip(&moves).take(n) {
            *value -= step * moved;
        }
        self.values[out] = step;
        self.basis[out] = column;
        let pivot = moves[out];
        let (before, rest) = self.inverse.split_at_mut(out * n);
        let (line, after) = rest.split_at_mut(n);
        line.iter_mut().for_each(|x| *x /= pivot);
        let others = before.chunks_exact_mut(n).zip(&moves[..out]);
        let others = others.chain(after.chunks_exact_mut(n).zip(&moves[out + 1..]));
        for (other, &times) in others {
            if times != 0.0 {
                for (x, y) in other.iter_mut().zip(line.iter()) {
                    *x -= times * y;
                }
            }
        }
        self.steps += 1;
        if self.steps.is_multiple_of(150) {
            self.refresh();
        }
        true
    }

    /// Recomputes the inverse, without the errors of many steps.
    pub fn refresh(&mut self) {
        let n = self.rows;
        let mut matrix = vec![0.0; n * n];
        for (place, &column) in self.basis.iter().enumerate() {
            for (row, x) in self.entries(column) {
                matrix[row * n + place] = x as f64;
            }
        }
        let mut inverse = vec![0.0; n * n];
        (0..n).for_each(|i| inverse[i * n + i] = 1.0);
        for at in 0..n {
            let largest = (at..n)
                .max_by(|&a, &b| matrix[a * n + at].abs().total_cmp(&matrix[b * n + at].abs()));
            let row = largest.unwrap_or(at);
            if matrix[row * n + at].abs() < 1e-12 {
                return;
            }
            for i in 0..n {
                matrix.swap(at * n + i, row * n + i);
                inverse.swap(at * n + i, row * n + i);
            }
            let pivot = matrix[at * n + at];
            for i in 0..n {
                matrix[at * n + i] /= pivot;
                inverse[at * n + i] /= pivot;
            }
            for row in (0..n).filter(|&row| row != at) {
                let times = matrix[row * n + at];
                if times != 0.0 {
                    for i in at..n {
                        matrix[row * n + i] -= times * matrix[at * n + i];
                    }
                    for i in 0..n {
                        inverse[row * n + i] -= times * inverse[at * n + i];
                    }
                }
            }
        }
        self.inverse = inverse;
        for row in 0..n {
            let line = &self.inverse[row * n..(row + 1) * n];
            self.values[row] = line.iter().zip(&self.moved).map(|(a, b)| a * b).sum();
        }
    }
}
