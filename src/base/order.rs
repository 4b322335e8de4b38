//! Values in the order of a number.
//!
//! Every type and closure given to the standard library's sort makes it another copy there, of several
//! thousand bytes. Here it sorts only numbers and places, once for all, and the values are moved after.

/// The numbers, the smallest first.
pub(crate) fn sorted(numbers: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut numbers: Vec<f64> = numbers.into_iter().collect();
    numbers.sort_by(f64::total_cmp);
    numbers
}

/// The smallest number first; values of equal numbers keep their order.
pub(crate) fn rising<T>(all: &mut [T], number: impl Fn(&T) -> f64) {
    all.sort_by_cached_key(|one| place(number(one)));
}

/// The largest number first; values of equal numbers keep their order.
pub(crate) fn falling<T>(all: &mut [T], number: impl Fn(&T) -> f64) {
    all.sort_by_cached_key(|one| !place(number(one)));
}

/// A whole number that is in order where [`f64::total_cmp`] is.
fn place(number: f64) -> i64 {
    let bits = number.to_bits().cast_signed();
    // Of negative numbers the larger bits are the smaller number.
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_the_order_of_the_numbers() {
        let (inf, least) = (f64::INFINITY, f64::from_bits(1));
        let numbers = [-f64::NAN, -inf, -2.0, -1.5, -least, -0.0, 0.0, least, 1.0, inf, f64::NAN];
        assert!(numbers.is_sorted_by(|a, b| a.total_cmp(b).is_lt()));
        assert!(numbers.is_sorted_by(|a, b| place(*a) < place(*b)));
    }

    #[test]
    fn values_of_equal_numbers_keep_their_order() {
        let mut all = [(2.0, 'a'), (1.0, 'b'), (2.0, 'c'), (-3.0, 'd')];
        rising(&mut all, |one| one.0);
        assert_eq!(all.map(|one| one.1), ['d', 'b', 'a', 'c']);
        falling(&mut all, |one| one.0);
        assert_eq!(all.map(|one| one.1), ['a', 'c', 'b', 'd']);
    }
}
