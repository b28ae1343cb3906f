//! Objects: the table of classes, and the header in front of each (RFC 2205, section 3.1.2).

use super::{
    Adspec, Capability, Challenge, Confirm, ErrorSpec, ExplicitRoute, Flowspec, Hello, Hop,
    Integrity, LabelObject, LabelRequest, Malformed, MessageId, MessageIdAck, MessageIdList,
    Reader, RecordRoute, RecoveryLabel, RestartCap, Scope, Sender, Session, SessionAttribute,
    Style, TimeValues, Tspec, Writer,
};

/// An object's body. Its file names the RFC.
pub(crate) trait Body: Sized {
    /// Reads the body; `None` if the C-Type, or a version within, is unknown.
    fn read(c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed>;
    /// The C-Type for writing.
    fn c_type(&self) -> u8;
    /// Writes it.
    fn write(&self, to: &mut Writer);
}

/// The treatment of a message with an object of an unknown class (RFC 2205, section 3.10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownRule {
    /// 0bbbbbbb: refuse the message.
    Refuse,
    /// 10bbbbbb: leave the object out.
    Ignore,
    /// 11bbbbbb: forward the object unchanged.
    Forward,
}

impl UnknownRule {
    /// The rule of a class number.
    pub const fn of(class: u8) -> Self {
        match class >> 6 {
            0b10 => Self::Ignore,
            0b11 => Self::Forward,
            _ => Self::Refuse,
        }
    }
}

macro_rules! objects {
    ($($class:literal $name:ident($body:ty) $says:literal;)*) => {
        /// An object; each name has its class beside it.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Object {
            $(#[doc = $says] $name($body),)*
            /// POLICY_DATA, class 14 (RFC 2750): C-Type and body, forwarded unread.
            Policy(u8, Vec<u8>),
            /// Any class, or C-Type of a known class, that is not in this table.
            Unknown {
                /// Its class.
                class: u8,
                /// Its C-Type.
                c_type: u8,
                /// The object's body, a multiple of 4 bytes.
                body: Vec<u8>,
            },
        }

        impl Object {
            /// Class and C-Type.
            pub fn class(&self) -> (u8, u8) {
                match self {
                    $(Self::$name(body) => ($class, body.c_type()),)*
                    Self::Policy(c_type, _) => (14, *c_type),
                    Self::Unknown { class, c_type, .. } => (*class, *c_type),
                }
            }

            /// Whether the table contains the class, with any C-Type.
            pub fn is_known_class(class: u8) -> bool {
                matches!(class, 14 $(| $class)*)
            }

            fn read_body(class: u8, c_type: u8, from: &mut Reader<'_>) -> Result<Option<Self>, Malformed> {
                match class {
                    $($class => <$body>::read(c_type, from).map(|body| body.map(Self::$name)),)*
                    14 => Ok(Some(Self::Policy(c_type, from.rest().to_vec()))),
                    _ => Ok(None),
                }
            }

            fn write_body(&self, to: &mut Writer) {
                match self {
                    $(Self::$name(body) => body.write(to),)*
                    Self::Policy(_, body) | Self::Unknown { body, .. } => to.put(body),
                }
            }
        }
    };
}

objects! {
    1 Session(Session) "SESSION, 1.";
    3 Hop(Hop) "RSVP_HOP, 3.";
    4 Integrity(Integrity) "INTEGRITY, 4.";
    5 TimeValues(TimeValues) "TIME_VALUES, 5.";
    6 Error(ErrorSpec) "ERROR_SPEC, 6.";
    7 Scope(Scope) "SCOPE, 7.";
    8 Style(Style) "STYLE, 8.";
    9 Flowspec(Flowspec) "FLOWSPEC, 9.";
    10 Filter(Sender) "FILTER_SPEC, 10.";
    11 Sender(Sender) "SENDER_TEMPLATE, 11.";
    12 Tspec(Tspec) "SENDER_TSPEC, 12.";
    13 Adspec(Adspec) "ADSPEC, 13.";
    15 Confirm(Confirm) "RESV_CONFIRM, 15.";
    16 Label(LabelObject) "LABEL, 16.";
    19 LabelRequest(LabelRequest) "LABEL_REQUEST, 19.";
    20 ExplicitRoute(ExplicitRoute) "EXPLICIT_ROUTE, 20.";
    21 RecordRoute(RecordRoute) "RECORD_ROUTE, 21.";
    22 Hello(Hello) "HELLO, 22.";
    23 MessageId(MessageId) "MESSAGE_ID, 23.";
    24 MessageIdAck(MessageIdAck) "MESSAGE_ID_ACK and MESSAGE_ID_NACK, 24.";
    25 MessageIdList(MessageIdList) "MESSAGE_ID LIST, 25.";
    34 RecoveryLabel(RecoveryLabel) "RECOVERY_LABEL, 34.";
    64 Challenge(Challenge) "CHALLENGE, 64.";
    131 RestartCap(RestartCap) "RESTART_CAP, 131.";
    134 Capability(Capability) "CAPABILITY, 134.";
    207 SessionAttribute(SessionAttribute) "SESSION_ATTRIBUTE, 207.";
}

impl Object {
    /// Reads the next object.
    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let length = usize::from(from.u16()?);
        let (class, c_type) = (from.u8()?, from.u8()?);
        // RFC 2205, section 3.1.2: the length is at least 4 and a multiple of 4.
        if length < 4 || !length.is_multiple_of(4) {
            return Err(Malformed::Length);
        }
        let bytes = from.take(length - 4)?;
        let mut body = Reader::new(bytes);
        match Self::read_body(class, c_type, &mut body)? {
            Some(object) if body.is_empty() => Ok(object),
            Some(_) => Err(Malformed::Trailing),
            None => Ok(Self::Unknown { class, c_type, body: bytes.to_vec() }),
        }
    }

    /// Writes the object with its header. A body that is too long for the length field is cut.
    /// Received bodies are never that long, and those of this crate are bounded.
    pub(crate) fn write(&self, to: &mut Writer) {
        let from = to.len();
        let (class, c_type) = self.class();
        to.u16(0);
        to.u8(class);
        to.u8(c_type);
        self.write_body(to);
        to.pad(from);
        let length = u16::try_from(to.len() - from).unwrap_or(0xfffc);
        to.set_u16(from, length);
    }
}
