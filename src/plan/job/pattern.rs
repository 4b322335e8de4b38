//! Which layers have experts, by Megatron-LM's expression: `([1]*3+[0]*1)*8` is a list in Python.
//!
//! Source: github.com/NVIDIA/Megatron-LM, `megatron/training/arguments.py`: `moe_freq_type`.

/// A value of the expression.
enum Value {
    Number(usize),
    List(Vec<bool>),
}

/// More entries than a model has layers are a mistake.
const MOST: usize = 10_000;
const DEEPEST: u32 = 32;

/// The list that an expression makes; `None` if it makes none.
pub(super) fn list(text: &str) -> Option<Vec<bool>> {
    let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let mut rest = plain.as_str();
    match sum(&mut rest, 0)? {
        Value::List(list) if rest.is_empty() => Some(list),
        _ => None,
    }
}

/// The stages of a layout such as `Et*3|(tt|)*29m|L` (`get_num_stages_from_str`,
/// megatron/core/transformer/pipeline_parallel_layer_layout.py); `None` if it is none.
pub(super) fn stages(layout: &str) -> Option<u32> {
    let plain: String = layout.chars().filter(|c| !c.is_whitespace() && *c != ',').collect();
    let (mut ends, mut group, mut last) = (0_u32, None, 0_u32);
    let mut rest = plain.as_str();
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            'E' | 'L' | 't' | 'm' => last = 0,
            '|' => last = 1,
            '(' if group.is_none() => {
                group = Some(ends);
                continue;
            }
            ')' => last = ends.checked_sub(group.take()?)?,
            '*' => {
                let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                let times: u32 = rest[..end].parse().ok()?;
                rest = &rest[end..];
                // It was counted once.
                ends = ends.checked_add(last.checked_mul(times.checked_sub(1)?)?)?;
                continue;
            }
            _ => return None,
        }
        if c != ')' {
            ends = ends.checked_add(last)?;
        }
    }
    group.is_none().then_some(ends)?.checked_add(1)
}

fn taken(rest: &mut &str, sign: char) -> bool {
    rest.strip_prefix(sign).map(|after| *rest = after).is_some()
}

fn sum(rest: &mut &str, deep: u32) -> Option<Value> {
    let mut found = product(rest, deep)?;
    while taken(rest, '+') {
        found = match (found, product(rest, deep)?) {
            (Value::List(mut one), Value::List(other)) => {
                one.extend(other);
                Value::List(one)
            }
            (Value::Number(a), Value::Number(b)) => Value::Number(a.checked_add(b)?),
            _ => return None,
        };
    }
    Some(found).filter(|value| !matches!(value, Value::List(list) if list.len() > MOST))
}

fn product(rest: &mut &str, deep: u32) -> Option<Value> {
    let mut found = atom(rest, deep)?;
    while taken(rest, '*') {
        found = match (found, atom(rest, deep)?) {
            (Value::List(list), Value::Number(times))
            | (Value::Number(times), Value::List(list)) => {
                list.len().checked_mul(times).filter(|all| *all <= MOST)?;
                Value::List(list.repeat(times))
            }
            (Value::Number(a), Value::Number(b)) => Value::Number(a.checked_mul(b)?),
            _ => return None,
        };
    }
    Some(found)
}

fn atom(rest: &mut &str, deep: u32) -> Option<Value> {
    if taken(rest, '(') {
        let inner = if deep < DEEPEST { sum(rest, deep + 1)? } else { return None };
        return taken(rest, ')').then_some(inner);
    }
    if taken(rest, '[') {
        let (inner, after) = rest.split_once(']')?;
        *rest = after;
        let entries = inner.split(',').filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| match entry {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        });
        return entries.collect::<Option<_>>().map(Value::List);
    }
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, after) = rest.split_at(digits);
    *rest = after;
    number.parse().ok().map(Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_pythons() {
        let of = |text: &str| {
            list(text)
                .map(|list| list.iter().map(|one| u8::from(*one).to_string()).collect::<String>())
        };
        for (text, layers) in [
            ("([1]*3+[0]*1)*3", "111011101110"),
            ("[0,1,1,1]*2", "01110111"),
            ("([0]+[1]*23)", "011111111111111111111111"),
            ("2 * [0, 1]", "0101"),
            ("[1]", "1"),
        ] {
            assert_eq!(of(text).as_deref(), Some(layers), "{text}");
        }
        for text in ["", "3", "[1]*", "([1]", "[1]+2", "[2]", "[1])", "[1]*99999999999", "x"] {
            assert_eq!(of(text), None, "{text}");
        }
        assert_eq!(of(&"(".repeat(100_000)), None);
    }
}
