//! The linear program behind a packing, with columns that are made when they are needed.
//!
//! ```text
//!   maximise x   where each commodity has patterns of weight x in all,
//!                and no link carries more than its rate
//! ```
//!
//! A revised simplex method with a dense inverse over doubles finds which columns the optimum is
//! made of (Dantzig, Wolfe 1960: column generation). Which ones is all that is taken from it: the
//! solution itself is computed exactly from them ([`super::exact`]), and proven on its own.
//!
//! Right sides are moved a little, each by another amount, so that no step of the search stands
//! still; a basis that is the best for these is so for the true ones, too.

/// A column: a slack of a row, x itself, or a pattern by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Slack(usize),
    Rate,
    Pattern(usize),
}

/// A pattern as the program sees it.
#[derive(Debug, Clone)]
pub(super) struct Sparse {
    /// The row of its commodity.
    pub row: usize,
    /// Its loads on links.
    pub loads: Vec<(u32, u32)>,
    /// Whose loads they are, by the caller's number.
    pub pattern: usize,
}

pub(super) struct Simplex {
    links: usize,
    rows: usize,
    /// The inverse of the basis, row by row.
    inverse: Vec<f64>,
    right: Vec<f64>,
    values: Vec<f64>,
    pub basis: Vec<Column>,
    pub patterns: Vec<Sparse>,
    steps: usize,
}

/// What counts as nothing, for rates of about 1.
const TINY: f64 = 1e-9;

impl Simplex {
    /// Links of these rates, scaled to about 1, and so many commodities.
    pub fn new(rates: &[f64], commodities: usize) -> Self {
        let rows = rates.len() + commodities;
        let mut random = crate::base::random::Random::new(7);
        let mut moved = |by: f64| by * (1.0 + random.below(1 << 20) as f64 / f64::from(1 << 20));
        let mut right: Vec<f64> = rates.iter().map(|rate| rate + rate * moved(1e-7)).collect();
        right.extend((0..commodities).map(|_| moved(1e-8)));
        let mut inverse = vec![0.0; rows * rows];
        (0..rows).for_each(|i| inverse[i * rows + i] = 1.0);
        Self {
            links: rates.len(),
            rows,
            inverse,
            values: right.clone(),
            right,
            basis: (0..rows).map(Column::Slack).collect(),
            patterns: Vec::new(),
            steps: 0,
        }
    }

    /// The prices of all rows: of links, then of commodities.
    pub fn prices(&self) -> Vec<f64> {
        match self.basis.iter().position(|&column| column == Column::Rate) {
            Some(row) => self.inverse[row * self.rows..(row + 1) * self.rows].to_vec(),
            None => vec![0.0; self.rows],
        }
    }

    /// x.
    pub fn rate(&self) -> f64 {
        let row = self.basis.iter().position(|&column| column == Column::Rate);
        row.map_or(0.0, |row| self.values[row])
    }

    /// By how much x grows with a pattern.
    pub fn gain(&self, pattern: &Sparse, prices: &[f64]) -> f64 {
        let loads = pattern.loads.iter();
        let cost: f64 = loads.map(|&(l, times)| f64::from(times) * prices[l as usize]).sum();
        prices[self.links + pattern.row] - cost
    }

    /// Makes the best of the columns that are known, with the further ones.
    pub fn improve(&mut self, mut further: Vec<Sparse>) {
        loop {
            let prices = self.prices();
            let mut best = (TINY, None);
            let rate = 1.0 - prices[self.links..].iter().sum::<f64>();
            if rate > best.0 && !self.basis.contains(&Column::Rate) {
                best = (rate, Some(Column::Rate));
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
    pub fn entries(&self, column: Column) -> Vec<(usize, i64)> {
        match column {
            Column::Slack(row) => vec![(row, 1)],
            Column::Rate => (self.links..self.rows).map(|row| (row, 1)).collect(),
            Column::Pattern(i) => {
                let pattern = &self.patterns[i];
                let loads = pattern.loads.iter().map(|&(l, times)| (l as usize, i64::from(times)));
                loads.chain([(self.links + pattern.row, -1)]).collect()
            }
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
        for row in 0..n {
            if moves[row] > TINY {
                let room = self.values[row].max(0.0) / moves[row];
                let is_less = leaving.is_none_or(|(least, held)| {
                    room < least - 1e-15 || room <= least + 1e-15 && moves[row] > moves[held]
                });
                if is_less {
                    leaving = Some((room, row));
                }
            }
        }
        let Some((step, out)) = leaving else { return false };
        for row in 0..n {
            self.values[row] -= step * moves[row];
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
        if self.steps % 150 == 0 {
            self.refresh();
        }
        true
    }

    /// Computes the inverse anew, without the errors of many steps.
    fn refresh(&mut self) {
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
            let largest = (at..n).max_by(|&a, &b| {
                matrix[a * n + at].abs().total_cmp(&matrix[b * n + at].abs())
            });
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
            self.values[row] = line.iter().zip(&self.right).map(|(a, b)| a * b).sum();
        }
    }
}
