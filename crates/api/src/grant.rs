//! The files and sockets of the node that a router's elements may use.

use std::borrow::Cow;

use europa_resource::{Access, Resource};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::decode::{Context, Decode, Fields};
use crate::problem::Problem;
use crate::tree::{Node, Value};

/// Most grants of one router: its process gets all of them in one message.
pub(crate) const MOST_GRANTS: usize = 32;

/// A file or socket that one element may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant(pub Resource);

impl Decode for Grant {
    fn decode(node: &Node, context: &mut Context) -> Option<Grant> {
        let mut fields = Fields::open(node, "a grant", context)?;
        let names = Access::ALL.map(|(name, _)| name);
        let message = format!("a grant is one of {}", names.join(", "));
        fields.one_of(&names, &message, Some("none of them"));
        let mut found = None;
        for (name, access) in Access::ALL {
            if let Some((_, value)) = fields.take(name) {
                found.get_or_insert((value, access));
            }
        }
        let grant = match found {
            None => None,
            Some((Node { value: Value::Text(text), .. }, access)) => {
                Some(Resource::parse(access, text))
            }
            Some((value, _)) => {
                fields.context.wrong_type(value, "a text");
                None
            }
        };
        if let (Some(Err(message)), Some((value, access))) = (&grant, found) {
            let help = match access {
                Access::Read | Access::Write => {
                    "a file is named from the root: /var/traces/in.pcap"
                }
                Access::Listen => {
                    "a socket is named like `tcp 0.0.0.0:80`, `unix /run/x.sock` or `memif /run/x.sock`"
                }
                Access::Connect => {
                    "a socket is named like `tcp 192.0.2.1:80` or `udp 192.0.2.1:53 from \
                     0.0.0.0:1053`"
                }
            };
            let place = fields.context.place(value);
            let problem = Problem::new(place, message.as_str()).label("names nothing").help(help);
            fields.context.report(problem);
        }
        fields.close();
        grant?.ok().map(Grant)
    }
}

impl Serialize for Grant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let access = self.0.access();
        let name = Access::ALL.iter().find(|(_, known)| *known == access).map(|(name, _)| *name);
        serializer.collect_map([(name.unwrap_or_default(), self.0.what())])
    }
}

impl JsonSchema for Grant {
    fn schema_name() -> Cow<'static, str> {
        "Grant".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A file or socket that one element may have: exactly one of these.",
            "type": "object",
            "properties": {
                "read": {
                    "description": "A file to read, by its path from the root.",
                    "type": "string",
                },
                "write": {
                    "description": "A file to write, by its path from the root. Each start and \
                                    each new configuration make a new file.",
                    "type": "string",
                },
                "listen": {
                    "description": "A listening socket: tcp ADDRESS:PORT, udp ADDRESS:PORT, \
                                    unix PATH, unix_dgram PATH or memif PATH.",
                    "type": "string",
                },
                "connect": {
                    "description": "A socket connected to this address, as for listen; an own \
                                    address follows after `from`.",
                    "type": "string",
                },
            },
            "additionalProperties": false,
            "minProperties": 1,
            "maxProperties": 1,
        })
    }
}
