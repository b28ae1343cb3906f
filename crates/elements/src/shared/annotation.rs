//! Places in the annotation area of packets, as arguments name them.

use europa_engine::{Names, Value};
use europa_pool::packet::{ANNOTATION_BYTES, annotation};

/// Names of bytes of the annotation area that elements share, as in Click.
const ANNOTATIONS: [(&str, usize); 10] = [
    ("AGGREGATE", annotation::AGGREGATE),
    ("DST_IP", annotation::DST_IP),
    ("DST_IP6", annotation::DST_IP),
    ("EXTRA_LENGTH", annotation::EXTRA_LENGTH),
    ("EXTRA_PACKETS", annotation::EXTRA_PACKETS),
    ("FIRST_TIMESTAMP", annotation::FIRST_TIMESTAMP),
    ("FIX_IP_SRC", annotation::FIX_IP_SRC),
    ("PAINT", annotation::PAINT),
    ("VLAN", annotation::VLAN_TCI),
    ("VLAN_TCI", annotation::VLAN_TCI),
];

/// The offset of a value of `BYTES` bytes in the annotation area, from a number or a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Annotation<const BYTES: usize>(pub(crate) usize);

impl Annotation<1> {
    /// The paint annotation.
    pub(crate) const PAINT: Annotation<1> = Annotation(annotation::PAINT);
}

impl<const BYTES: usize> Annotation<BYTES> {
    /// The byte where it begins.
    pub(crate) fn at(self) -> usize {
        self.0
    }
}

impl<const BYTES: usize> Value for Annotation<BYTES> {
    const WANTED: &'static str = match BYTES {
        1 => "annotation byte, 0 to 47",
        2 => "annotation byte, 0 to 46",
        4 => "annotation byte, 0 to 44",
        16 => "annotation byte, 0 to 32",
        _ => "annotation byte",
    };

    fn parse(text: &str, names: &Names) -> Option<Self> {
        let word = String::parse(text, names)?;
        let named = ANNOTATIONS.iter().find(|(name, _)| *name == word).map(|(_, at)| *at);
        let at = named.or_else(|| usize::parse(&word, names))?;
        (at <= ANNOTATION_BYTES - BYTES).then_some(Annotation(at))
    }

    fn text(&self) -> Option<String> {
        Some(self.0.to_string())
    }
}
