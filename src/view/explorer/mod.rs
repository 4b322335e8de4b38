//! The explorer: one self-contained HTML file that needs neither a server nor a network.

use crate::answer::explorer::Explorer;

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
/// The page's script, file after file in one scope.
const SCRIPT: &str = concat!(
    include_str!("base.js"),
    include_str!("network.js"),
    include_str!("steps.js"),
    include_str!("race.js"),
    include_str!("plot.js"),
    include_str!("costs.js"),
    include_str!("measured.js"),
    include_str!("training.js"),
    include_str!("main.js"),
);
/// Prices by forms; separate, so that a test can compare them with the engine without a browser.
const PRICE: &str = include_str!("price.js");

/// The page.
///
/// # Errors
/// None in practice: the report is plain data.
pub fn page(report: &Explorer) -> serde_json::Result<String> {
    let (data, forms) = (data(report)?, forms(report));
    let parts = [
        ("/*STYLE*/", STYLE),
        ("/*DATA*/", &data),
        ("/*FORMS*/", &forms),
        ("/*PRICE*/", PRICE),
        ("/*SCRIPT*/", SCRIPT),
    ];
    let mut page = String::with_capacity(data.len() + forms.len() + (1 << 16));
    let mut rest = PAGE;
    for (mark, text) in parts {
        if let Some((before, after)) = rest.split_once(mark) {
            page.push_str(before);
            page.push_str(text);
            rest = after;
        }
    }
    page.push_str(rest);
    Ok(page)
}

/// Only the data and code with which the page computes, as a JavaScript module.
///
/// # Errors
/// As [`page`].
pub fn module(report: &Explorer) -> serde_json::Result<String> {
    let (data, forms) = (data(report)?, forms(report));
    Ok(format!(
        "const DATA = {data};\nconst FORMS = {forms};\n{PRICE}\nmodule.exports = {{ DATA, FORMS, Price }};\n"
    ))
}

fn data(report: &Explorer) -> serde_json::Result<String> {
    // A closing tag in a text would end the script early.
    Ok(serde_json::to_string(report)?.replace("</", "<\\/"))
}

fn forms(report: &Explorer) -> String {
    let scripts: Vec<&str> = report.forms.iter().map(|f| f.script.as_str()).collect();
    format!("[\n{}\n]", scripts.join(",\n"))
}
