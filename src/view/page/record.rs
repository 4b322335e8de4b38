//! Tables for programs, from a report itself: columns are named after the keys of its JSON.

use serde::Serialize;
use serde_json::Value;

use super::super::sheet::{Cell, Column, Sheet};

/// The values of `keys` for each item of a list of `report`, such as `runs.points`; one row without
/// a list. A key that an item lacks is read from its parent; `^name` is always read from the
/// parent, and `step=^name` also names the column.
pub(super) fn record(report: &impl Serialize, list: &str, keys: &[&str]) -> Sheet {
    let report = serde_json::to_value(report).unwrap_or_default();
    let path: Vec<&str> = list.split('.').filter(|part| !part.is_empty()).collect();
    let columns = keys.iter().map(|key| key.split('=').next().unwrap_or(key));
    let columns = columns.map(|name| Column::words(name, name)).collect();
    let mut sheet = Sheet { columns, rows: Vec::new() };
    fill(&mut sheet, &mut vec![&report], &path, keys);
    sheet
}

fn fill<'v>(sheet: &mut Sheet, held: &mut Vec<&'v Value>, path: &[&str], keys: &[&str]) {
    let Some((first, rest)) = path.split_first() else {
        sheet.rows.push(keys.iter().map(|key| cell(held, key)).collect());
        return;
    };
    let list: Option<&'v Value> = held.last().and_then(|v| v.get(first));
    for item in list.and_then(Value::as_array).into_iter().flatten() {
        held.push(item);
        fill(sheet, held, rest, keys);
        held.pop();
    }
}

fn cell(held: &[&Value], key: &str) -> Cell {
    let key = key.split('=').next_back().unwrap_or(key);
    let (key, held) = match key.strip_prefix('^') {
        Some(key) => (key, &held[..held.len().saturating_sub(1)]),
        None => (key, held),
    };
    let pointer = format!("/{}", key.replace('.', "/"));
    let found = held.iter().rev().find_map(|value| value.pointer(&pointer));
    Cell::same(match found {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_holds_an_item_lends_its_keys() {
        let report = json!({
            "name": "r",
            "steps": [{"name": "a", "calls": [{"name": "b", "time_s": 0.5}, {"name": "c", "time_s": null}]}],
        });
        let sheet = record(&report, "steps.calls", &["step=^name", "name", "time_s", "none"]);
        let mut out = Vec::new();
        sheet.csv(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "step,name,time_s,none\na,b,0.5,\na,c,,\n");
    }
}
