//! `kind: host`: an end system, made by Europa or already existing.

use std::net::IpAddr;

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::decode::{Context, Decode, Fields, entries};
use crate::problem::Problem;
use crate::slow_path::check_root;
use crate::source::At;
use crate::tree::{Node, Value};
use crate::values::{InterfaceName, Mac, Name, Rate};

/// An end system: a network namespace that Europa makes and removes, or, with `namespace`, `pid` or
/// `container`, an existing one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Host {
    /// Its name, unique on the node.
    pub name: At<Name>,
    /// The node of a cluster that the host is on. Default: the node of the router that it is linked
    /// to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<At<Name>>,
    /// The host's interfaces by name. Inside the host they are Linux devices.
    pub interfaces: HostInterfaces,
    /// The host's routes, in addition to those of its interfaces' subnets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<HostRoute>>")]
    pub routes: Vec<At<HostRoute>>,
    /// Next hops of the host's default routes, at most one of each family.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Gateways>")]
    pub gateway: Vec<At<IpAddr>>,
    /// The existing network namespace, by name or path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<At<String>>,
    /// A process in the existing network namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<At<u32>>,
    /// The existing Docker container, by name or id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<At<String>>,
    /// Kernel parameters of the host, such as `net.ipv4.ip_forward: 1`.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    #[schemars(with = "Option<std::collections::BTreeMap<String, Word>>")]
    pub sysctls: Texts,
    /// Files and directories of the machine that the host's programs see in other places, as
    /// `FROM:TO` or, read-only, `FROM:TO:ro`. Files that programs write elsewhere are deleted with
    /// the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub binds: Vec<At<String>>,
    /// The root directory of the host's programs: a folder of the machine, or a container image, as
    /// an OCI layout or an archive of `docker save`. Programs may write everywhere; the folder
    /// stays unchanged. Default: the machine's files.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub root: Option<At<String>>,
    /// First words of the command that it runs beside `run`, such as `[/sbin/tini, --]`. Default: those
    /// of its image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub entrypoint: Vec<At<String>>,
    /// Further words of that command, or all of them. Default: those of its image, unless `entrypoint`
    /// is given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub command: Vec<At<String>>,
    /// The user of that command: `USER`, `UID`, `USER:GROUP` or `UID:GID`. Default: the image's, or root.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub user: Option<At<String>>,
    /// Environment of its commands.
    #[serde(skip_serializing_if = "Texts::is_empty")]
    #[schemars(with = "Option<std::collections::BTreeMap<String, Word>>")]
    pub env: Texts,
    /// Lines for a shell in the host, run in this order when the host starts. A command that does
    /// not end needs an `&`. All commands end with the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub run: Vec<At<String>>,
}

/// Interfaces in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostInterfaces(pub Vec<(At<InterfaceName>, At<HostInterface>)>);

/// A host's interface: one end of a veth pair whose other end Europa has, or a device.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HostInterface {
    /// The link that joins the interface to another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<At<Name>>,
    /// Or the port that the interface makes. Interfaces of routers share it like a device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<At<Name>>,
    /// Or a device of the machine. It is moved into the host, and back when the host ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<At<String>>,
    /// The interface's Ethernet address. Default: derived from the names of host and interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<At<Mac>>,
    /// The interface's addresses with the prefix lengths of their subnets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Option<Vec<String>>")]
    pub addresses: Vec<At<IpNet>>,
    /// Longest packet, in bytes, without the Ethernet header. Default: 1500.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mtu: Option<At<u32>>,
    /// The highest rate at which routers send to the interface by its port, such as `100Mb/s`,
    /// counted in Ethernet frames. Slices share it by their reservations. Only with `port`.
    /// Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<At<Rate>>,
}

/// A route of a host.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HostRoute {
    /// Destinations.
    #[schemars(with = "String")]
    pub to: At<IpNet>,
    /// The next hop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub via: Option<At<IpAddr>>,
    /// The interface. Default: the one that reaches the next hop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<At<InterfaceName>>,
}

/// Names and texts, in the order of the file. Numbers and truth values are texts too, in their
/// written form: `007`, `1.10`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Texts(pub Vec<(At<String>, At<String>)>);

/// A text, a number or a truth value.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code, reason = "only its schema is used")]
pub(crate) enum Word {
    Text(String),
    Number(f64),
    Truth(bool),
}

/// One next hop, or one of each family.
#[derive(JsonSchema)]
#[schemars(untagged, inline)]
#[allow(dead_code, reason = "only its schema is used")]
enum Gateways {
    One(IpAddr),
    Several(Vec<IpAddr>),
}

/// The kind of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostPlace<'a> {
    /// A namespace that Europa makes.
    Own,
    /// An existing namespace, by name or path.
    Namespace(&'a str),
    /// The namespace of a process.
    Process(u32),
    /// The namespace of a Docker container.
    Container(&'a str),
}

/// The other end of a host's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAttachment<'a> {
    /// One end of a link.
    Link(&'a At<Name>),
    /// The port that it makes.
    Port(&'a At<Name>),
    /// A device of the machine.
    Device(&'a At<String>),
}

impl Host {
    /// The host's namespace.
    pub fn place(&self) -> HostPlace<'_> {
        match (&self.namespace, &self.pid, &self.container) {
            (Some(name), _, _) => HostPlace::Namespace(&name.value),
            (_, Some(pid), _) => HostPlace::Process(pid.value),
            (_, _, Some(name)) => HostPlace::Container(&name.value),
            _ => HostPlace::Own,
        }
    }

    /// The Ethernet address of an interface.
    pub fn mac(&self, name: &str, interface: &HostInterface) -> Mac {
        match interface.mac {
            Some(mac) => mac.value,
            // The text contains a dot. No slice's name does, so no interface of a router has the
            // same text.
            None => Mac::generated(&format!("host.{}/{name}", self.name)),
        }
    }
}

impl Host {
    /// The port that an interface makes: the named one, or on a link a port that users cannot name.
    /// A device makes no port.
    pub fn port(&self, name: &str, interface: &HostInterface) -> Option<Name> {
        match interface.attachment()? {
            HostAttachment::Port(port) => Some(port.value.clone()),
            HostAttachment::Link(_) => Some(Name::hidden(format!("{}.{name}", self.name))),
            HostAttachment::Device(_) => None,
        }
    }
}

impl HostInterface {
    /// Its longest packet.
    pub fn mtu(&self) -> u32 {
        self.mtu.map_or(1500, |mtu| mtu.value)
    }

    /// Its other end.
    pub fn attachment(&self) -> Option<HostAttachment<'_>> {
        let link = self.link.as_ref().map(HostAttachment::Link);
        let port = self.port.as_ref().map(HostAttachment::Port);
        link.or(port).or_else(|| self.device.as_ref().map(HostAttachment::Device))
    }
}

impl Texts {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Decode for Host {
    fn decode(node: &Node, context: &mut Context) -> Option<Host> {
        let mut fields = Fields::open(node, "a host", context)?;
        fields.take("kind");
        let name = fields.required("name");
        let node = fields.optional("node");
        let interfaces = fields.required("interfaces");
        let routes = fields.list("routes");
        let gateway = match fields.take("gateway") {
            Some((_, Node { value: Value::List(_), .. })) => fields.list("gateway"),
            _ => fields.optional("gateway").into_iter().collect(),
        };
        let (namespace, pid) = (fields.optional("namespace"), fields.optional("pid"));
        let container = fields.optional("container");
        let message = "a host is one of `namespace`, `pid`, `container`";
        fields.one_of(&["namespace", "pid", "container"], message, None);
        let sysctls = fields.optional("sysctls").unwrap_or_default();
        let binds = fields.list("binds");
        let root = fields.optional("root");
        check_root(root.as_ref(), fields.context);
        let (entrypoint, command) = (fields.list("entrypoint"), fields.list("command"));
        let user = fields.optional("user");
        let env = fields.optional("env").unwrap_or_default();
        let run = fields.list("run");
        fields.close();
        Some(Host {
            name: name?,
            node,
            interfaces: interfaces?,
            routes,
            gateway,
            namespace,
            pid,
            container,
            sysctls,
            binds,
            root,
            entrypoint,
            command,
            user,
            env,
            run,
        })
    }
}

impl Decode for HostInterfaces {
    fn decode(node: &Node, context: &mut Context) -> Option<HostInterfaces> {
        entries(node, context, "a mapping from names to interfaces").map(HostInterfaces)
    }
}

impl Decode for HostInterface {
    fn decode(node: &Node, context: &mut Context) -> Option<HostInterface> {
        let mut fields = Fields::open(node, "a host's interface", context)?;
        let interface = HostInterface {
            link: fields.optional("link"),
            port: fields.optional("port"),
            device: fields.optional("device"),
            mac: fields.optional("mac"),
            addresses: fields.list("addresses"),
            mtu: fields.optional("mtu"),
            rate: fields.optional("rate"),
        };
        if let (Some(rate), None) = (&interface.rate, &interface.port) {
            let problem = Problem::new(rate.place, "`rate` is for a host's interface with `port`")
                .label("has no port")
                .help("a link has its own `rate`, in a document of `kind: link`");
            fields.context.report(problem);
        }
        let message = "a host's interface has one of `link`, `port` and `device`";
        fields.one_of(&["link", "port", "device"], message, Some("attached to nothing"));
        fields.close();
        Some(interface)
    }
}

impl Decode for HostRoute {
    fn decode(node: &Node, context: &mut Context) -> Option<HostRoute> {
        let mut fields = Fields::open(node, "a host's route", context)?;
        let (to, via) = (fields.required("to"), fields.optional("via"));
        let interface = fields.optional("interface");
        fields.leads_somewhere("a host's route needs `via` or `interface`");
        fields.close();
        Some(HostRoute { to: to?, via, interface })
    }
}

impl Decode for Texts {
    fn decode(node: &Node, context: &mut Context) -> Option<Texts> {
        let Value::Map(entries) = &node.value else {
            context.wrong_type(node, "a mapping from names to texts");
            return None;
        };
        let decode = |(key, value): &(Node, Node)| {
            // Both are decoded first, so that mistakes in both are reported.
            let (name, text) = (scalar(key, context), scalar(value, context));
            Some((name?, text?))
        };
        Some(Texts(entries.iter().filter_map(decode).collect()))
    }
}

/// A text, or the characters of a number or truth value: a kernel parameter or a variable may need
/// `01`.
fn scalar(node: &Node, context: &mut Context) -> Option<At<String>> {
    let text = match (&node.value, &node.written) {
        (Value::Text(text), _) => text.clone(),
        (_, Some(written)) => written.to_string(),
        _ => {
            context.wrong_type(node, "a text or a number");
            return None;
        }
    };
    Some(At { value: text, place: context.place(node) })
}

impl Serialize for HostInterfaces {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, interface)| (name, interface)))
    }
}

impl Serialize for Texts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, text)| (name, text)))
    }
}

impl JsonSchema for HostInterfaces {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "HostInterfaces".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "propertyNames": generator.subschema_for::<InterfaceName>(),
            "additionalProperties": generator.subschema_for::<HostInterface>(),
        })
    }
}
