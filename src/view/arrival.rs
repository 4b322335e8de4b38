//! Operations in the order of arrival, for people.

use super::page::Page;
use super::sheet::{Cell, Sheet};
use super::table::machine;
use super::{Look, counted};
use crate::answer::arrival::{Arrival, RankView};
use crate::base::order::falling;
use crate::base::quantity::{Bytes, Seconds};

/// The most ranks that a text shows.
const SHOWN: usize = 8;

/// The makespan, and the ranks that finish last.
#[must_use]
pub fn arrival(report: &Arrival, look: Look) -> Page {
    let mut page = Page::default();
    page.line(format!(
        "{}: {}, {}, {} in {}",
        report.played,
        counted(report.ranks, "rank"),
        counted(report.operations as u64, "operation"),
        Bytes(report.bytes),
        counted(report.messages, "message")
    ));
    machine(&mut page, &report.machine, report.nodes);
    page.gap();
    let makespan = Seconds(report.makespan_s);
    page.entry("makespan  ", format!("{makespan} ideal, messages received in order of arrival"));
    if report.most_computed_s > 0.0 {
        let most = Seconds(report.most_computed_s);
        let times = report.makespan_s / report.most_computed_s;
        page.entry(
            "computes  ",
            format!("at most {most} on one rank; the makespan is {times:.2} times that"),
        );
    }
    page.gap();
    let mut ranks: Vec<&RankView> = report.rank_times.iter().collect();
    if !look.whole {
        falling(&mut ranks, |a| a.end_s);
        if ranks.len() > SHOWN {
            page.line(format!("the {SHOWN} of {} ranks that finish last", ranks.len()));
            ranks.truncate(SHOWN);
        }
    }
    page.table(sheet(&ranks));
    page
}

fn sheet(ranks: &[&RankView]) -> Sheet {
    Sheet::of(ranks.iter().copied())
        .words("rank", "rank", |rank| rank.rank)
        .numbers("ends", "", "end_s", |rank| Cell::seconds(rank.end_s))
        .numbers("computes", "", "computes_s", |rank| Cell::seconds(rank.computes_s))
        .numbers("messages", "", "moves_s", |rank| Cell::seconds(rank.moves_s))
        .numbers("waits", "", "waits_s", |rank| Cell::seconds(rank.waits_s))
        .sheet
}
