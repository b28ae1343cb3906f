//! Maps of programs as the kernel makes them.

use europa_cage::MapDefinition;
use europa_cage::kernel::Shape;
use europa_substrate::verify::MapShape;

/// The kernel's view of a map.
pub(super) fn shape(definition: &MapDefinition) -> MapShape<'_> {
    let Shape { type_number, key_bytes, value_bytes, max_entries, flags } = Shape::of(definition);
    let data = definition.data.as_ref().map(|(bytes, constant)| (bytes.as_slice(), *constant));
    MapShape {
        name: &definition.name,
        type_number,
        key_bytes,
        value_bytes,
        max_entries,
        flags,
        data,
    }
}
