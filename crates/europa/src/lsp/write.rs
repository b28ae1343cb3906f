//! `lsp create`, `change`, `delete`: flows without a file.

use std::process::ExitCode;

use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use europa_api::rest::{Applied, ApplyRequest, Object, SourceText};
use europa_client::Client;
use europa_node::Instance;
use serde_json::{Map, Value, json};

use crate::complete;
use crate::exit::Failure;
use crate::kinds::Reference;
use crate::table::errors_in_colour;
use crate::up::{Progress, client, print};

/// Arguments of `lsp create`.
#[derive(Args)]
pub(crate) struct CreateArgs {
    /// The flow's name.
    flow: String,
    /// The slice of the router where the flow begins.
    #[arg(long, add = ArgValueCompleter::new(complete::slices))]
    slice: String,
    /// The router where the flow begins: a name within the slice.
    #[arg(long, value_name = "ROUTER")]
    from: String,
    /// The end: a router of the slice by name, or an address.
    #[arg(long, value_name = "ROUTER|ADDRESS")]
    to: String,
    #[command(flatten)]
    fields: FlowFields,
    #[command(flatten)]
    form: ChangeForm,
}

/// Arguments of `lsp change`.
#[derive(Args)]
pub(crate) struct ChangeArgs {
    /// The flow.
    #[arg(add = ArgValueCompleter::new(complete::flows))]
    flow: String,
    /// The end: a router of the slice by name, or an address.
    #[arg(long, value_name = "ROUTER|ADDRESS")]
    to: Option<String>,
    #[command(flatten)]
    fields: FlowFields,
    #[command(flatten)]
    form: ChangeForm,
}

/// Arguments of `lsp delete`.
#[derive(Args)]
pub(crate) struct DeleteArgs {
    /// The flows.
    #[arg(required = true, add = ArgValueCompleter::new(complete::flows))]
    flows: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Optional fields of a flow.
#[derive(Args)]
struct FlowFields {
    /// Routers on the path, in order, by name or address; an empty text means that the path follows
    /// the routes.
    #[arg(long, value_name = "ROUTER,...", value_delimiter = ',')]
    path: Option<Vec<String>>,
    /// The bandwidth that every router on the path reserves, such as 20Mb/s.
    #[arg(long, value_name = "RATE")]
    bandwidth: Option<String>,
    /// Bytes that the flow may send at once, such as 64kB.
    #[arg(long, value_name = "BYTES")]
    burst: Option<String>,
    /// The flow's priority against existing flows, 0 (best) to 7.
    #[arg(long, value_name = "PRIORITY")]
    setup: Option<u16>,
    /// The flow's priority against new flows, 0 (best) to 7.
    #[arg(long, value_name = "PRIORITY")]
    hold: Option<u16>,
    /// The treatment of the flow's packets while it has no path.
    #[arg(long, value_name = "drop|route")]
    while_down: Option<String>,
    /// A destination whose packets belong to the flow; once or several times.
    #[arg(long = "prefix", value_name = "PREFIX")]
    prefixes: Option<Vec<String>>,
}

/// How a change is made and shown.
#[derive(Args)]
struct ChangeForm {
    /// Only check, and show what would change.
    #[arg(long)]
    dry_run: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl FlowFields {
    /// Writes the given fields into a document.
    fn write(&self, document: &mut Map<String, Value>) {
        let texts = |all: &[String]| -> Vec<String> {
            all.iter().filter(|text| !text.is_empty()).cloned().collect()
        };
        let fields = [
            ("path", self.path.as_deref().map(|path| json!(texts(path)))),
            ("bandwidth", self.bandwidth.as_ref().map(|rate| json!(rate))),
            ("burst", self.burst.as_ref().map(|bytes| json!(bytes))),
            ("setup", self.setup.map(|priority| json!(priority))),
            ("hold", self.hold.map(|priority| json!(priority))),
            ("while_down", self.while_down.as_ref().map(|word| json!(word))),
            ("prefixes", self.prefixes.as_deref().map(|all| json!(texts(all)))),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                document.insert(name.to_owned(), value);
            }
        }
    }
}

pub(super) fn create(instance: &Instance, args: &CreateArgs) -> Result<ExitCode, Failure> {
    let client = client(instance);
    match client.get::<Object>(&path(&args.flow)) {
        Ok(_) => {
            let flow = &args.flow;
            return Err(Failure::usage(format!(
                "there is a flow {flow:?} already: `europa lsp change {flow}` changes it"
            )));
        }
        Err(error) if error.status() == Some(404) => {}
        Err(error) => return Err(error.into()),
    }
    let named = [("kind", "flow"), ("name", &*args.flow), ("slice", &*args.slice)];
    let ends = [("from", &*args.from), ("to", &*args.to)];
    let named = named.into_iter().chain(ends);
    let mut document = named.map(|(name, value)| (name.to_owned(), json!(value))).collect();
    args.fields.write(&mut document);
    send(&client, document, &args.form)
}

pub(super) fn change(instance: &Instance, args: &ChangeArgs) -> Result<ExitCode, Failure> {
    let client = client(instance);
    let found: Object = client.get(&path(&args.flow))?;
    let Value::Object(mut document) = found.document else {
        return Err(format!("the node's answer has no document of flow {:?}", args.flow).into());
    };
    if let Some(to) = &args.to {
        document.insert("to".to_owned(), json!(to));
    }
    args.fields.write(&mut document);
    send(&client, document, &args.form)
}

pub(super) fn delete(instance: &Instance, args: &DeleteArgs) -> Result<ExitCode, Failure> {
    let client = client(instance);
    for flow in &args.flows {
        print(&client.delete::<Applied>(&path(flow))?, args.json, false)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn path(flow: &str) -> String {
    Reference { kind: "flows", name: flow.to_owned() }.path()
}

/// Applies one document.
fn send(
    client: &Client,
    document: Map<String, Value>,
    form: &ChangeForm,
) -> Result<ExitCode, Failure> {
    let text = serde_saphyr::to_string(&document).map_err(|error| error.to_string())?;
    let request = ApplyRequest {
        sources: vec![SourceText { path: "command line".into(), text }],
        dry_run: form.dry_run,
        colour: errors_in_colour(),
        ..ApplyRequest::default()
    };
    let progress = Progress::new("applying");
    let applied = client.post::<Applied>("/v1/apply", &request);
    progress.end();
    print(&applied?, form.json, false)?;
    Ok(ExitCode::SUCCESS)
}
