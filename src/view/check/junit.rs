//! JUnit XML, as CI servers read it: one test case per budget, a failure if it fails the check,
//! skipped if that is waived, and an error for each fault of the file.
//!
//! Source: the schema of the Jenkins xUnit plugin, `junit-10.xsd`.

use std::io::{self, Write};

use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};
use quick_xml::writer::Writer;

use crate::answer::check::{BudgetView, Check, FaultView};
use crate::plan::check::Level;

pub(super) fn junit(out: &mut impl Write, report: &Check) -> io::Result<()> {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    let tests = (report.budgets.len() + report.faults.len()).to_string();
    let count = |level| report.budgets.iter().filter(|b| b.counts == level).count();
    let skipped = report.budgets.iter().filter(|b| b.waived).count().to_string();
    let (failures, errors) = (count(Level::Error).to_string(), report.faults.len().to_string());
    let counts = [
        ("name", "collcost check"),
        ("tests", tests.as_str()),
        ("failures", failures.as_str()),
        ("errors", errors.as_str()),
        ("time", "0"),
    ];
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    xml.write_event(Event::Start(BytesStart::new("testsuites").with_attributes(counts)))?;
    let mut suite = BytesStart::new("testsuite").with_attributes(counts);
    suite.push_attribute(("skipped", skipped.as_str()));
    xml.write_event(Event::Start(suite))?;
    for fault in &report.faults {
        of_fault(&mut xml, fault)?;
    }
    for budget in &report.budgets {
        of_budget(&mut xml, budget)?;
    }
    xml.write_event(Event::End(BytesEnd::new("testsuite")))?;
    xml.write_event(Event::End(BytesEnd::new("testsuites")))?;
    let mut text = xml.into_inner();
    text.push(b'\n');
    out.write_all(&text)
}

type Xml = Writer<Vec<u8>>;

fn of_fault(xml: &mut Xml, fault: &FaultView) -> io::Result<()> {
    let place = format!("{}:{}:{}", fault.file, fault.line, fault.column);
    let (name, file) = (plain(&place), plain(&fault.file));
    let case = [("name", name.as_str()), ("classname", file.as_str()), ("time", "0")];
    xml.write_event(Event::Start(BytesStart::new("testcase").with_attributes(case)))?;
    let text = match &fault.help {
        Some(help) => format!("{place}: {}\n{help}", fault.what),
        None => format!("{place}: {}", fault.what),
    };
    said(xml, "error", &fault.what, &text)?;
    xml.write_event(Event::End(BytesEnd::new("testcase")))
}

fn of_budget(xml: &mut Xml, budget: &BudgetView) -> io::Result<()> {
    let (name, file) = (plain(&budget.name), plain(&budget.file));
    let case = [("name", name.as_str()), ("classname", file.as_str()), ("time", "0")];
    let case = BytesStart::new("testcase").with_attributes(case);
    if budget.counts == Level::None {
        return xml.write_event(Event::Empty(case));
    }
    xml.write_event(Event::Start(case))?;
    if let (true, Some(waiver)) = (budget.waived, &budget.waiver) {
        let why = plain(&waiver.message);
        let why = [("message", why.as_str())];
        xml.write_event(Event::Empty(BytesStart::new("skipped").with_attributes(why)))?;
    }
    if budget.counts != Level::Error {
        xml.write_event(Event::Start(BytesStart::new("system-out")))?;
        xml.write_event(Event::Text(BytesText::new(&plain(&format!(
            "{}: {}",
            budget.words(),
            budget.message
        )))))?;
        xml.write_event(Event::End(BytesEnd::new("system-out")))?;
        return xml.write_event(Event::End(BytesEnd::new("testcase")));
    }
    let place = format!("{}:{}:{}", budget.file, budget.line, budget.column);
    said(xml, "failure", &budget.message, &format!("{place}: {}", budget.message))?;
    xml.write_event(Event::End(BytesEnd::new("testcase")))
}

fn said(xml: &mut Xml, tag: &str, what: &str, text: &str) -> io::Result<()> {
    let what = plain(what);
    let kind = [("message", what.as_str()), ("type", "budget")];
    xml.write_event(Event::Start(BytesStart::new(tag).with_attributes(kind)))?;
    xml.write_event(Event::Text(BytesText::new(&plain(text))))?;
    xml.write_event(Event::End(BytesEnd::new(tag)))
}

/// Characters that XML 1.0 does not allow are left out.
fn plain(text: &str) -> String {
    let is_allowed = |c: &char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().filter(|c| is_allowed(c) || matches!(c, '\n' | '\t')).collect()
}
