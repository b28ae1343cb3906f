//! The objects of a state message, sorted by purpose.

use std::net::IpAddr;
use std::time::Duration;

use crate::id::LspKey;
use crate::wire::{
    Adspec, Cause, ErrorSpec, ExplicitRoute, Flowspec, Hop, LabelObject, LabelRequest, Message,
    MessageId, MessageIdAck, Object, RecordRoute, Sender, Session, SessionAttribute, Style, Tspec,
    UnknownRule,
};

/// The fields of a Path except its LSP's name and its sender.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PathBody {
    pub(crate) request: LabelRequest,
    pub(crate) route: Option<ExplicitRoute>,
    pub(crate) attribute: Option<SessionAttribute>,
    pub(crate) tspec: Tspec,
    pub(crate) adspec: Option<Adspec>,
    pub(crate) record: Option<RecordRoute>,
    /// Policy data, and objects of classes that are forwarded unread.
    pub(crate) others: Vec<Object>,
}

/// One LSP of a Resv, ResvErr or ResvTear.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Flow {
    pub(crate) sender: Sender,
    pub(crate) flowspec: Option<Flowspec>,
    pub(crate) label: Option<LabelObject>,
    pub(crate) record: Option<RecordRoute>,
}

/// All fields of a message; a repeated field counts once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    pub(crate) session: Option<Session>,
    pub(crate) hop: Option<Hop>,
    pub(crate) refresh: Option<Duration>,
    pub(crate) sender: Option<Sender>,
    pub(crate) tspec: Option<Tspec>,
    pub(crate) adspec: Option<Adspec>,
    pub(crate) request: Option<LabelRequest>,
    pub(crate) route: Option<ExplicitRoute>,
    pub(crate) attribute: Option<SessionAttribute>,
    pub(crate) record: Option<RecordRoute>,
    pub(crate) style: Option<Style>,
    pub(crate) error: Option<ErrorSpec>,
    pub(crate) confirm: Option<IpAddr>,
    pub(crate) recovery_label: Option<u32>,
    pub(crate) flows: Vec<Flow>,
    pub(crate) others: Vec<Object>,
    pub(crate) id: Option<MessageId>,
    pub(crate) acks: Vec<MessageIdAck>,
    /// The error for an unknown object, if RFC 2205, section 3.10, requires one.
    pub(crate) refusal: Option<Cause>,
}

impl Fields {
    /// Sorts a message's objects.
    pub(crate) fn of(message: Message) -> Self {
        let mut fields = Self::default();
        let mut flowspec = None;
        for object in message.objects {
            fields.sort(object, &mut flowspec);
        }
        fields
    }

    fn sort(&mut self, object: Object, flowspec: &mut Option<Flowspec>) {
        match object {
            Object::Session(it) => self.session = Some(it),
            Object::Hop(it) => self.hop = Some(it),
            Object::TimeValues(it) => {
                self.refresh = Some(Duration::from_millis(it.refresh_ms.into()));
            }
            Object::Sender(it) => self.sender = Some(it),
            Object::Tspec(it) => self.tspec = Some(it),
            Object::Adspec(it) => self.adspec = Some(it),
            Object::LabelRequest(it) => self.request = Some(it),
            Object::ExplicitRoute(it) => self.route = Some(it),
            Object::SessionAttribute(it) => self.attribute = Some(it),
            Object::Style(it) => self.style = Some(it),
            Object::Error(it) => self.error = Some(it),
            Object::Confirm(it) => self.confirm = Some(it.0),
            Object::RecoveryLabel(it) => self.recovery_label = Some(it.0),
            Object::MessageId(it) => self.id = Some(it),
            Object::MessageIdAck(it) => self.acks.push(it),
            // A flowspec applies to all filters behind it (RFC 2205, section 3.1.4).
            Object::Flowspec(it) => *flowspec = Some(it),
            Object::Filter(sender) => {
                let flowspec = *flowspec;
                self.flows.push(Flow { sender, flowspec, label: None, record: None });
            }
            Object::Label(it) => {
                if let Some(flow) = self.flows.last_mut() {
                    flow.label = Some(it);
                }
            }
            // In a Resv it belongs to the preceding filter, in a Path to the message.
            Object::RecordRoute(it) => match self.flows.last_mut() {
                Some(flow) => flow.record = Some(it),
                None => self.record = Some(it),
            },
            Object::Policy(..) => self.others.push(object),
            Object::Unknown { class, c_type, .. } => self.unknown(class, c_type, object),
            // Objects of other messages, or objects that are not needed.
            Object::Integrity(_)
            | Object::Scope(_)
            | Object::Hello(_)
            | Object::MessageIdList(_)
            | Object::Challenge(_)
            | Object::RestartCap(_)
            | Object::Capability(_) => (),
        }
    }

    fn unknown(&mut self, class: u8, c_type: u8, object: Object) {
        const FLOWSPEC: u8 = 9;
        let rule = UnknownRule::of(class);
        let cause = match (Object::is_known_class(class), rule) {
            // An RFC 2210 service that is not supported.
            (true, _) if class == FLOWSPEC && c_type == 2 => Cause::SERVICE_UNSUPPORTED,
            (true, UnknownRule::Refuse) => Cause::unknown_c_type(class, c_type),
            (false, UnknownRule::Refuse) => Cause::unknown_class(class, c_type),
            (_, UnknownRule::Forward) => {
                self.others.push(object);
                return;
            }
            (_, UnknownRule::Ignore) => return,
        };
        self.refusal.get_or_insert(cause);
    }

    /// The LSP that a Path, PathTear or PathErr is about.
    pub(crate) fn lsp(&self) -> Option<LspKey> {
        Some(LspKey { session: self.session?, sender: self.sender? })
    }

    /// A Path's body; `None` if a required object is missing.
    pub(crate) fn path_body(&self) -> Option<PathBody> {
        Some(PathBody {
            request: self.request?,
            route: self.route.clone(),
            attribute: self.attribute.clone(),
            tspec: self.tspec?,
            adspec: self.adspec,
            record: self.record.clone(),
            others: self.others.clone(),
        })
    }
}

impl PathBody {
    /// Setup and hold priority. Without SESSION_ATTRIBUTE the LSP preempts no other LSP, and every
    /// other LSP may preempt it.
    pub(crate) fn priorities(&self) -> (u8, u8) {
        self.attribute.as_ref().map_or((7, 7), |attribute| (attribute.setup, attribute.hold))
    }

    pub(crate) fn has_flag(&self, flag: u8) -> bool {
        self.attribute.as_ref().is_some_and(|attribute| attribute.flags & flag != 0)
    }
}
