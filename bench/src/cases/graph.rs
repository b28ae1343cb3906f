//! `graph`: the element graph of the IPv4 router, without devices, on one core.

use serde_json::json;

use crate::cli::Options;
use crate::error::Result;
use crate::progress::Progress;
use crate::report::{Align, Outcome, Table};

/// Runs the case.
pub(super) fn run(_: &Options, _: &Progress) -> Result<Outcome> {
    let columns = [("routes", Align::Right), ("ns/packet", Align::Right)];
    let mut table = Table::new("The 13 elements of an IPv4 router", &columns);
    for routes in ["2", "170 000"] {
        table.push([routes.to_owned(), "–".to_owned()]);
    }
    Ok(Outcome {
        name: "graph",
        title: "Element graph without devices".into(),
        tables: vec![table],
        charts: vec![],
        notes: vec!["Not available: this benchmark does not know how to run the graph yet.".into()],
        data: json!({}),
    })
}
