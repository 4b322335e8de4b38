//! Integer linear systems, solved exactly: modulo two primes, and back to fractions.
//!
//! A solution with numerators and denominators below 2^60 is determined by its value modulo a
//! number of 122 bits (Wang, Guy, Davenport 1982). The caller checks the solution, which is cheap,
//! so a larger one is not mistaken for a small one.

use crate::model::formula::Rational;

/// The two largest primes below 2^61.
const PRIMES: [u64; 2] = [2_305_843_009_213_693_951, 2_305_843_009_213_693_921];

/// Solves `matrix`·x = `right` for a square matrix given row by row; `None` if it is singular or
/// the solution has too many digits.
pub(super) fn solve(matrix: &[Vec<i64>], right: &[i64]) -> Option<Vec<Rational>> {
    let a = modulo(matrix, right, PRIMES[0])?;
    let b = modulo(matrix, right, PRIMES[1])?;
    a.into_iter().zip(b).map(|(a, b)| fraction(a, b)).collect()
}

fn times(a: u64, b: u64, p: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(p)) as u64
}

fn inverse(a: u64, p: u64) -> u64 {
    let (mut power, mut result, mut left) = (a, 1, p - 2);
    while left > 0 {
        if left & 1 == 1 {
            result = times(result, power, p);
        }
        power = times(power, power, p);
        left >>= 1;
    }
    result
}

fn modulo(matrix: &[Vec<i64>], right: &[i64], p: u64) -> Option<Vec<u64>> {
    let n = right.len();
    let of = |x: i64| i128::from(x).rem_euclid(i128::from(p)) as u64;
    let mut rows: Vec<Vec<u64>> = matrix
        .iter()
        .zip(right)
        .map(|(row, &right)| row.iter().copied().chain([right]).map(of).collect())
        .collect();
    for at in 0..n {
        let pivot = (at..n).find(|&row| rows[row][at] != 0)?;
        rows.swap(at, pivot);
        let by = inverse(rows[at][at], p);
        rows[at][at..].iter_mut().for_each(|x| *x = times(*x, by, p));
        let line = rows[at].clone();
        for (i, row) in rows.iter_mut().enumerate() {
            let by = row[at];
            if i != at && by != 0 {
                for (x, &y) in row[at..].iter_mut().zip(&line[at..]).filter(|(_, y)| **y != 0) {
                    let less = times(by, y, p);
                    *x = if *x >= less { *x - less } else { *x + p - less };
                }
            }
        }
    }
    Some(rows.into_iter().map(|row| row[n]).collect())
}

/// The fraction that is `a` modulo the first prime and `b` modulo the second.
fn fraction(a: u64, b: u64) -> Option<Rational> {
    let [p, q] = PRIMES;
    let less = (i128::from(b) - i128::from(a)).rem_euclid(i128::from(q)) as u64;
    let times = times(less, inverse(p % q, q), q);
    let all = i128::from(p) * i128::from(q);
    let value = i128::from(a) + i128::from(p) * i128::from(times);
    // Euclid's steps; the first remainder below 2^60 is the numerator.
    let (mut r, mut s) = ((all, value), (0_i128, 1_i128));
    while r.1 >= 1 << 60 {
        let by = r.0 / r.1;
        r = (r.1, r.0 - by * r.1);
        s = (s.1, s.0 - by * s.1);
    }
    (s.1 != 0 && s.1.abs() < 1 << 60).then(|| Rational::new(r.1, s.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_come_back() {
        let matrix = vec![vec![3, 1, 0], vec![1, -7, 2], vec![0, 5, 11]];
        let x = solve(&matrix, &[1, 0, 4]).unwrap();
        for (row, right) in matrix.iter().zip([1, 0, 4]) {
            let sum = row.iter().zip(&x).map(|(&a, x)| *x * Rational::from_integer(a.into()));
            assert_eq!(sum.fold(Rational::from_integer(0), |a, b| a + b), right.into());
        }
        assert_eq!(solve(&[vec![1, 1], vec![2, 2]], &[1, 2]), None);
    }
}
