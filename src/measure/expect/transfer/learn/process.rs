//! The Gaussian process: the inverse of the prior covariance, and predictions without some values.
//!
//! One inverse over all values answers for every left-out machine: with Q = K⁻¹ and B the values that
//! are left out, K_AA⁻¹ = Q_AA − Q_AB·Q_BB⁻¹·Q_BA. Thirty machines therefore cost little more than one.

/// Q.
#[derive(Debug, Clone)]
pub(super) struct Inverse {
    n: usize,
    q: Vec<f64>,
}

/// a·b, eight at a time.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (whole_a, rest_a) = a.as_chunks::<8>();
    let (whole_b, rest_b) = b.as_chunks::<8>();
    for (a, b) in whole_a.iter().zip(whole_b) {
        for i in 0..8 {
            sums[i] += a[i] * b[i];
        }
    }
    sums.iter().sum::<f64>() + rest_a.iter().zip(rest_b).map(|(a, b)| a * b).sum::<f64>()
}

/// The lower Cholesky factor of a positive definite matrix, in place; the part above is unchanged.
fn factor(k: &mut [f64], n: usize) {
    for i in 0..n {
        let (before, row) = k.split_at_mut(i * n);
        for j in 0..i {
            let other = &before[j * n..j * n + n];
            row[j] = (row[j] - dot(&row[..j], &other[..j])) / other[j];
        }
        // The noise on the diagonal keeps it above zero.
        row[i] = (row[i] - dot(&row[..i], &row[..i])).max(f64::MIN_POSITIVE).sqrt();
    }
}

/// `each(i, row)` for all rows of `n` on all CPUs.
fn rows(all: &mut [f64], n: usize, each: impl Fn(usize, &mut [f64]) + Sync) {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let part = n.div_ceil(threads.max(1)).max(1);
    std::thread::scope(|scope| {
        for (of, chunk) in all.chunks_mut(part * n).enumerate() {
            let each = &each;
            scope.spawn(move || {
                for (i, row) in chunk.chunks_mut(n).enumerate() {
                    each(of * part + i, row);
                }
            });
        }
    });
}

impl Inverse {
    pub(super) fn of(mut k: Vec<f64>, n: usize) -> Self {
        factor(&mut k, n);
        // Row j of `x` is column j of the factor's inverse: zero before j.
        let mut x = vec![0.0; n * n];
        rows(&mut x, n, |j, row| {
            row[j] = 1.0 / k[j * n + j];
            for i in j + 1..n {
                row[i] = -dot(&k[i * n + j..i * n + i], &row[j..i]) / k[i * n + i];
            }
        });
        let mut q = k;
        rows(&mut q, n, |i, row| {
            for (j, q) in row.iter_mut().enumerate() {
                let from = i.max(j);
                *q = dot(&x[i * n + from..i * n + n], &x[j * n + from..j * n + n]);
            }
        });
        Self { n, q }
    }

    /// Q·r with r taken as zero at `out`.
    fn times(&self, r: &[f64], out: &[usize]) -> Vec<f64> {
        let mut kept = r.to_vec();
        for &i in out {
            kept[i] = 0.0;
        }
        self.q.chunks(self.n).map(|row| dot(row, &kept)).collect()
    }

    /// Q_BB⁻¹·u_B.
    fn inner(&self, u: &[f64], out: &[usize]) -> Vec<f64> {
        let m = out.len();
        let mut block: Vec<f64> =
            out.iter().flat_map(|&i| out.iter().map(move |&j| self.q[i * self.n + j])).collect();
        factor(&mut block, m);
        let mut b: Vec<f64> = out.iter().map(|&i| u[i]).collect();
        substitute(|i, j| block[i * m + j], &mut b);
        b
    }

    /// α = K_AA⁻¹·r_A of the values without `out`; zero at `out`.
    pub(super) fn weights(&self, r: &[f64], out: &[usize]) -> Vec<f64> {
        let mut u = self.times(r, out);
        let inner = self.inner(&u, out);
        let mut more = vec![0.0; self.n];
        for (&i, b) in out.iter().zip(&inner) {
            more[i] = *b;
        }
        for (u, row) in u.iter_mut().zip(self.q.chunks(self.n)) {
            *u -= out.iter().map(|&j| row[j] * more[j]).sum::<f64>();
        }
        for &i in out {
            u[i] = 0.0;
        }
        u
    }

    /// The prediction at `out` from the remaining values: K_BA·K_AA⁻¹·r_A = −Q_BB⁻¹·Q_BA·r_A.
    pub(super) fn told(&self, r: &[f64], out: &[usize]) -> Vec<f64> {
        let u = self.times(r, out);
        self.inner(&u, out).into_iter().map(|b| -b).collect()
    }
}

/// Solves L·Lᵀ·x = b in place.
fn substitute(l: impl Fn(usize, usize) -> f64, b: &mut [f64]) {
    for i in 0..b.len() {
        let sum: f64 = (0..i).map(|j| l(i, j) * b[j]).sum();
        b[i] = (b[i] - sum) / l(i, i);
    }
    for i in (0..b.len()).rev() {
        let sum: f64 = (i + 1..b.len()).map(|j| l(j, i) * b[j]).sum();
        b[i] = (b[i] - sum) / l(i, i);
    }
}

/// x of a·x = b for a positive definite matrix, which is overwritten.
pub(super) fn solve<const N: usize>(a: &mut [[f64; N]; N], mut b: [f64; N]) -> [f64; N] {
    factor(a.as_flattened_mut(), N);
    substitute(|i, j| a[i][j], &mut b);
    b
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaving values out by the inverse gives the same result as never having had them.
    #[test]
    fn what_is_left_out_is_not_there() {
        let n = 40;
        let at = |i: usize, j: usize| (-(i as f64 - j as f64).abs() / 5.0).exp();
        let full = |keep: &[usize]| -> Vec<f64> {
            let noise = |i, j| if i == j { 0.01 } else { 0.0 };
            keep.iter().flat_map(|&i| keep.iter().map(move |&j| at(i, j) + noise(i, j))).collect()
        };
        let all: Vec<usize> = (0..n).collect();
        let (out, kept): (Vec<usize>, Vec<usize>) = all.iter().partition(|i| *i % 7 == 2);
        let r: Vec<f64> = all.iter().map(|&i| (i as f64 * 0.37).sin()).collect();
        let inverse = Inverse::of(full(&all), n);
        let weights = inverse.weights(&r, &out);
        let less = Inverse::of(full(&kept), kept.len());
        let own: Vec<f64> = kept.iter().map(|&i| r[i]).collect();
        let direct = less.times(&own, &[]);
        for (i, d) in kept.iter().zip(&direct) {
            assert!((weights[*i] - d).abs() < 1e-9, "{} {d}", weights[*i]);
        }
        let told = inverse.told(&r, &out);
        for (i, t) in out.iter().zip(&told) {
            let sum: f64 = kept.iter().zip(&direct).map(|(&j, d)| at(*i, j) * d).sum();
            assert!((sum - t).abs() < 1e-9);
        }
    }
}
