//! The program that handles a router's packets.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::Serialize;

use crate::decode::{Context, Decode, Fields, word};
use crate::problem::Problem;
use crate::source::At;
use crate::tree::{Node, Value};
use crate::values::{InterfaceName, Mac};
use crate::xdp::Xdp;

/// The program that handles a router's packets: exactly one of `builtin`, `click`,
/// `click_file`, `program` and `xdp`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct FastPath {
    /// A fast path that is part of Europa.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub builtin: Option<At<Builtin>>,
    /// Routes of `builtin: ipv4`, in addition to those of its interfaces' subnets; with `xdp`,
    /// routes of the slow path's Linux.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<RoutesSchema>")]
    pub routes: Vec<At<Route>>,
    /// `routes: kernel`: the routes of the slow path's Linux. Never set together with a list.
    #[serde(rename = "routes", skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    pub kernel_routes: Option<At<Kernel>>,
    /// Static neighbours of `builtin: ipv4`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<Neighbour>>")]
    pub neighbours: Vec<At<Neighbour>>,
    /// A Click configuration. Its devices are the names of the router's interfaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub click: Option<At<String>>,
    /// A file with a Click configuration, relative to the YAML file's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub click_file: Option<At<String>>,
    /// A program that adds the user's own elements to `click` or `click_file`: its file, relative
    /// to the YAML file's folder. The router's process executes the program in its sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elements: Option<At<String>>,
    /// A data plane of the user: command and arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub program: Vec<At<String>>,
    /// An XDP program, for `run: kernel`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xdp: Option<At<Xdp>>,
    /// The text of `click` or of the file that `click_file` names, or the object of `xdp` in base64
    /// (RFC 4648), filled in by `load`.
    #[serde(skip)]
    pub configuration: Option<Configuration>,
}

/// A Click configuration's text and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The file's name for error messages.
    pub file: String,
    /// The line of that file at which the text begins, counted from 1.
    pub first_line: usize,
    /// The configuration.
    pub text: String,
}

/// Europa's own fast paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Builtin {
    /// A router for IPv4 and IPv6 with ARP, ND and ICMP errors.
    Ipv4,
    /// A bridge that learns addresses.
    Bridge,
}

/// A route of `builtin: ipv4`, for IPv4 or IPv6.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Route {
    /// Destinations.
    #[schemars(with = "String")]
    pub to: At<IpNet>,
    /// The next hop. Without a next hop the destinations are on the interface's own subnet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<At<IpAddr>>,
    /// The interface. Default: the one whose subnet contains the next hop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<At<InterfaceName>>,
}

/// The values of a fast path's `routes`.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code, reason = "only its schema is used")]
enum RoutesSchema {
    /// The routes of the slow path's Linux.
    Kernel(Kernel),
    /// The listed routes.
    List(Vec<Route>),
}

/// The word `kernel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kernel {
    /// The routes of the slow path's Linux.
    Kernel,
}

/// Whether a value is the word `kernel`.
fn is_kernel(node: &Node) -> bool {
    matches!(&node.value, Value::Text(text) if text == "kernel")
}

/// A static neighbour.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Neighbour {
    /// Its IP address.
    pub address: At<IpAddr>,
    /// Its Ethernet address.
    pub mac: At<Mac>,
    /// Its interface.
    pub interface: At<InterfaceName>,
}

/// The kind of a fast path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice<'a> {
    /// `builtin: ipv4`.
    Ipv4 {
        /// Routes in addition to those of the interfaces' own subnets.
        routes: &'a [At<Route>],
        /// Neighbours in addition to those found by ARP and ND.
        neighbours: &'a [At<Neighbour>],
    },
    /// `builtin: bridge`.
    Bridge,
    /// `click` or `click_file`.
    Click(&'a Configuration),
    /// `program`: command and arguments.
    Program(&'a [At<String>]),
    /// `xdp`, and its object in base64.
    Xdp(&'a Xdp, &'a Configuration),
}

impl FastPath {
    /// The kind of fast path; `None` only for a Click file that was not read.
    pub fn choice(&self) -> Option<Choice<'_>> {
        match self.builtin.as_ref().map(|builtin| builtin.value) {
            Some(Builtin::Ipv4) => {
                Some(Choice::Ipv4 { routes: &self.routes, neighbours: &self.neighbours })
            }
            Some(Builtin::Bridge) => Some(Choice::Bridge),
            None if !self.program.is_empty() => Some(Choice::Program(&self.program)),
            None => match (&self.xdp, &self.configuration) {
                (Some(xdp), Some(object)) => Some(Choice::Xdp(xdp, object)),
                (None, Some(configuration)) => Some(Choice::Click(configuration)),
                (_, None) => None,
            },
        }
    }
}

const CHOICES: [&str; 5] = ["builtin", "click", "click_file", "program", "xdp"];

impl Decode for FastPath {
    fn decode(node: &Node, context: &mut Context) -> Option<FastPath> {
        let mut fields = Fields::open(node, "a fast path", context)?;
        let is_kernel = fields.take("routes").is_some_and(|(_, value)| is_kernel(value));
        let fast_path = FastPath {
            kernel_routes: if is_kernel { fields.optional("routes") } else { None },
            builtin: fields.optional("builtin"),
            routes: if is_kernel { Vec::new() } else { fields.list("routes") },
            neighbours: fields.list("neighbours"),
            click: fields.optional("click"),
            click_file: fields.optional("click_file"),
            elements: fields.optional("elements"),
            program: fields.list("program"),
            xdp: fields.optional("xdp"),
            configuration: None,
        };
        let message = format!("a fast path is one of {}", CHOICES.join(", "));
        fields.one_of(&CHOICES, &message, Some("none of them"));
        let bridge = fast_path.builtin.as_ref().is_some_and(|b| b.value == Builtin::Bridge);
        for list in ["routes", "neighbours"] {
            if let Some((key, _)) = fields.take(list)
                && (bridge || !fields.has("builtin") && !fields.has("xdp"))
            {
                let place = fields.context.place(key);
                let problem = Problem::new(place, format!("`{list}` belongs to `builtin: ipv4`"))
                    .label("has no meaning here");
                fields.context.report(problem);
            }
        }
        if let Some((key, _)) = fields.take("elements")
            && !fields.has("click")
            && !fields.has("click_file")
        {
            let place = fields.context.place(key);
            let message = "`elements` belongs to `click` or `click_file`";
            fields
                .context
                .report(Problem::new(place, message).label("no configuration names them"));
        }
        if let Some((key, Node { value: Value::List(words), .. })) = fields.take("program")
            && words.is_empty()
        {
            let place = fields.context.place(key);
            fields.context.report(Problem::new(place, "`program` needs a command").label("empty"));
        }
        fields.close();
        Some(fast_path)
    }
}

impl Decode for Builtin {
    fn decode(node: &Node, context: &mut Context) -> Option<Builtin> {
        let words = [("ipv4", Builtin::Ipv4), ("bridge", Builtin::Bridge)];
        word(node, context, "a built-in fast path", &words)
    }
}

impl Decode for Route {
    fn decode(node: &Node, context: &mut Context) -> Option<Route> {
        let mut fields = Fields::open(node, "a route", context)?;
        let to = fields.required("to");
        let via = fields.optional("via");
        let interface = fields.optional("interface");
        fields.leads_somewhere("a route needs `via` or `interface`");
        fields.close();
        Some(Route { to: to?, via, interface })
    }
}

impl Decode for Kernel {
    fn decode(node: &Node, context: &mut Context) -> Option<Kernel> {
        word(node, context, "where routes come from", &[("kernel", Kernel::Kernel)])
    }
}

impl Decode for Neighbour {
    fn decode(node: &Node, context: &mut Context) -> Option<Neighbour> {
        let mut fields = Fields::open(node, "a neighbour", context)?;
        let address = fields.required("address");
        let mac = fields.required("mac");
        let interface = fields.required("interface");
        fields.close();
        Some(Neighbour { address: address?, mac: mac?, interface: interface? })
    }
}
