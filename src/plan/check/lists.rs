//! Lists in a budget: `n = [8, 64, 512]` and `size = ["1MiB", "1GiB"]` make a budget for each pair.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The keys that may hold a list.
const LISTED: [&str; 4] = ["n", "nodes", "gpus", "size"];
/// A file with more than this is a mistake.
pub(super) const MOST: usize = 10_000;

/// A budget without lists, and what distinguishes it from the others: `n 64, 1GiB`.
pub(super) struct One<'a> {
    pub table: DeTable<'a>,
    pub told: String,
}

/// One for each choice from the lists; `None` if there is no list, and an error text if a list is
/// empty or there are too many choices.
pub(super) fn each<'a>(table: &DeTable<'a>) -> Result<Vec<One<'a>>, (&'static str, String)> {
    let mut found: Vec<One<'a>> = Vec::new();
    for key in LISTED {
        let Some(list) = table.get(key).and_then(|value| value.get_ref().as_array()) else {
            continue;
        };
        if list.is_empty() {
            return Err((key, format!("`{key}` is an empty list")));
        }
        if found.len().max(1) * list.len() > MOST {
            return Err((key, format!("the lists make over {MOST} budgets")));
        }
        if found.is_empty() {
            found.push(One { table: table.clone(), told: String::new() });
        }
        let with = |one: &One<'a>, item: &Spanned<DeValue<'a>>| {
            let mut table = one.table.clone();
            if let Some(value) = table.get_mut(key) {
                *value = item.clone();
            }
            let comma = if one.told.is_empty() { "" } else { ", " };
            One { table, told: format!("{}{comma}{}", one.told, told(key, item.get_ref())) }
        };
        found = found
            .iter()
            .flat_map(|one| list.iter().map(|i| with(one, i)).collect::<Vec<_>>())
            .collect();
    }
    Ok(found)
}

fn told(key: &str, value: &DeValue<'_>) -> String {
    let text = match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => number.as_str().to_owned(),
        // The reader of the key reports the wrong type.
        other => other.type_str().to_owned(),
    };
    match key {
        "size" => text,
        _ => format!("{key} {text}"),
    }
}
