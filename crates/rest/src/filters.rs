//! `/v1/slices/SLICE/filters`: rules that have numbers, and how often all rules have counted.

use axum::extract::{Path, State};
use axum::middleware::from_extractor;
use axum::routing::get;
use axum::{Extension, Json, Router};
use europa_api::filters::{Action, Ports, Protocol, Rule, TcpFlags};
use europa_api::rest::{ClassBench, FilterChanged, FilterChanges, FilterList, ProblemDetails};
use europa_api::{Place, Problem as Mistake, Problems, Source};
use europa_filter::{Filter, Pattern, parse};
use europa_node::OwnChanges;

use crate::problem::{Answer, NoOptions, Problem};
use crate::state::Api;
use crate::who::Who;

pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/slices/{slice}/filters", get(list).post(change))
        .route_layer(from_extractor::<NoOptions>())
}

/// A slice's rules, and how often each has counted.
#[utoipa::path(get, path = "/v1/slices/{slice}/filters", operation_id = "list_filters", tag = "filters",
    params(("slice" = String, Path, description = "The slice")),
    responses(
        (status = 200, description = "Its rules", body = ref("#/components/schemas/FilterList")),
        (status = 404, description = "No such slice",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn list(State(api): State<Api>, Path(slice): Path<String>) -> Answer<FilterList> {
    Ok(Json(api.requests.filters(&slice).await?))
}

/// Adds and removes rules of a slice in one step: no packet is matched against a part of the
/// change. The rules are in force and stored when this answers.
#[utoipa::path(post, path = "/v1/slices/{slice}/filters", operation_id = "change_filters", tag = "filters",
    params(("slice" = String, Path, description = "The slice")),
    request_body = ref("#/components/schemas/FilterChanges"),
    responses(
        (status = 200, description = "The changes", body = ref("#/components/schemas/FilterChanged")),
        (status = 404, description = "No such slice, or no such rule",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json"),
        (status = 422, description = "Mistakes, or too many; nothing was changed",
            body = ref("#/components/schemas/ProblemDetails"), content_type = "application/problem+json")))]
pub(crate) async fn change(
    State(api): State<Api>,
    Extension(who): Extension<Who>,
    Path(slice): Path<String>,
    Json(request): Json<FilterChanges>,
) -> Answer<FilterChanged> {
    let name = slice.clone();
    // Many rules take long, so another thread reads them.
    let reading = tokio::task::spawn_blocking(move || read(slice, request));
    let changes = reading.await.map_err(|error| ProblemDetails::failed(error.to_string()))??;
    let changed = api.requests.change_filters(changes).await?;
    // A program may change rules a thousand times a second, and its events would replace all
    // others.
    if who.is_outside() {
        let message = format!("{} rules added, {} removed", changed.added.len(), changed.removed);
        api.events.asked(who.by(), ("slice", &name), "FiltersChanged", message);
    }
    Ok(Json(changed))
}

fn read(slice: String, request: FilterChanges) -> Result<OwnChanges, Problem> {
    let FilterChanges { replace, remove: removed, add, classbench, colour } = request;
    let mut added = Vec::with_capacity(add.len());
    for new in add {
        new.rule
            .check()
            .map_err(|why| ProblemDetails::configuration(why.to_string()).in_own_words())?;
        added.push((new.number, new.rule));
    }
    if let Some(file) = classbench {
        let rules = rules(&file)
            .map_err(|problems| ProblemDetails::of(&problems, colour).in_own_words())?;
        added.extend(rules.into_iter().map(|rule| (None, rule)));
    }
    Ok(OwnChanges { slice, replace, removed, added })
}

/// The rules of a file of ClassBench's.
fn rules(file: &ClassBench) -> Result<Vec<Rule>, Problems> {
    let sources = [Source { path: (&file.file).into(), text: file.text.clone() }];
    let wrong = |line: usize, message: String| {
        let mut lines = file.text.split_inclusive('\n');
        let start: usize = lines.by_ref().take(line.saturating_sub(1)).map(str::len).sum();
        let length = lines.next().map_or(0, |line| line.trim_end().len());
        let byte = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let place = Place { source: 0, start: byte(start), end: byte(start + length) };
        let help =
            "a line looks like @10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF 0x0000/0x0000";
        let problem = Mistake::new(place, message).label("in this filter").help(help);
        Problems::new(vec![problem], &sources)
    };
    let filters = parse(&file.text).map_err(|(line, error)| wrong(line, error.to_string()))?;
    let lines = file.text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let count = filters.len();
    let rule = |(at, (line, filter)): (usize, (usize, &Filter))| {
        let priority = u32::try_from(count - at).unwrap_or(u32::MAX);
        rule(filter, priority, &file.action).map_err(|why| wrong(line + 1, why))
    };
    lines.map(|(line, _)| line).zip(&filters).enumerate().map(rule).collect()
}

fn rule(filter: &Filter, priority: u32, action: &Action) -> Result<Rule, String> {
    let Pattern {
        source, destination, protocol, source_ports, destination_ports, tcp_flags, ..
    } = Pattern::from(filter);
    let protocol = match protocol {
        (_, 0) => None,
        (number, 0xff) => Some(Protocol(number)),
        (_, mask) => return Err(format!("a protocol's mask is 0x00 or 0xFF, not {mask:#04x}")),
    };
    let low = filter.flags.1 & 0xff;
    if low != 0 {
        return Err(format!("the mask of flags has {low:#04x} in its lower byte: TCP's are above"));
    }
    let (value, mask) = tcp_flags;
    let flags = TcpFlags { set: value & mask, clear: !value & mask };
    Ok(Rule {
        priority,
        source,
        destination,
        protocol,
        source_port: source_ports.map(Ports),
        destination_port: destination_ports.map(Ports),
        tcp_flags: (mask != 0).then_some(flags),
        action: action.clone(),
        ..Rule::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> ClassBench {
        ClassBench { file: "acl.txt".into(), text: text.into(), action: Action::default() }
    }

    #[test]
    fn a_file_becomes_rules_the_first_one_first() {
        let text = "@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 81 0x06/0xFF 0x0200/0x1200\n\n\
                    @0.0.0.0/0 10.1.0.0/16 0 : 65535 0 : 65535 0x00/0x00\n";
        let rules = rules(&file(text)).unwrap();
        let json = |rule: &Rule| serde_json::to_string(rule).unwrap();
        assert_eq!(
            json(&rules[0]),
            "{\"priority\":2,\"source\":\"10.0.0.0/8\",\"destination\":\"0.0.0.0/0\",\
             \"protocol\":\"tcp\",\"destination_port\":\"80-81\",\
             \"tcp_flags\":\"+syn-ack\",\"action\":\"count\"}"
        );
        assert_eq!((rules.len(), rules[1].priority), (2, 1));
    }

    #[test]
    fn mistakes_have_their_lines() {
        for (text, wanted) in [
            ("\n@1.2.3.4/33 1.2.3.4/32 0 : 1 0 : 1 0x06/0xff", "acl.txt:2:1"),
            ("@1.2.3.4/32 1.2.3.4/32 0 : 1 0 : 1 0x06/0x0f", "acl.txt:1:1"),
            ("@1.2.3.4/32 1.2.3.4/32 0 : 1 0 : 1 0x06/0xff 0x0000/0x0001", "lower byte"),
        ] {
            let report = rules(&file(text)).unwrap_err().render(false);
            assert!(report.contains(wanted), "{report}");
        }
    }
}
