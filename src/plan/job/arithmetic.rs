//! Whole numbers as a shell computes them between `$((` and `))`.

use std::collections::BTreeMap;

/// The value of sums, products and parentheses over numbers and `known` names; `None` for anything else.
pub(super) fn arithmetic(text: &str, known: &BTreeMap<String, String>) -> Option<i64> {
    let mut reader = Reader { rest: text.trim(), known, depth: 0 };
    let value = reader.sum()?;
    reader.rest.is_empty().then_some(value)
}

struct Reader<'a> {
    rest: &'a str,
    known: &'a BTreeMap<String, String>,
    depth: u32,
}

impl Reader<'_> {
    fn take(&mut self, signs: &[char]) -> Option<char> {
        let sign = self.rest.chars().next().filter(|c| signs.contains(c))?;
        self.rest = self.rest[1..].trim_start();
        Some(sign)
    }

    fn sum(&mut self) -> Option<i64> {
        let mut value = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            let next = self.product()?;
            value = match sign {
                '+' => value.checked_add(next)?,
                _ => value.checked_sub(next)?,
            };
        }
        Some(value)
    }

    fn product(&mut self) -> Option<i64> {
        let mut value = self.atom()?;
        while let Some(sign) = self.take(&['*', '/', '%']) {
            let next = self.atom()?;
            value = match sign {
                '*' => value.checked_mul(next)?,
                '/' => value.checked_div(next)?,
                _ => value.checked_rem(next)?,
            };
        }
        Some(value)
    }

    fn atom(&mut self) -> Option<i64> {
        const DEEPEST: u32 = 50;
        if self.take(&['(']).is_some() {
            self.depth += 1;
            let value = (self.depth < DEEPEST).then(|| self.sum())??;
            self.depth -= 1;
            self.take(&[')'])?;
            return Some(value);
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        let value = self.known.get(word).map_or(word, |value| value.trim());
        value.parse().ok()
    }
}
