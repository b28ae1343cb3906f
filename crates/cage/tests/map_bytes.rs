//! Bytes of maps that a program may have.

use europa_cage::MapKind;
use europa_cage::kernel::Shape;

#[test]
fn all_bytes_of_a_map_count() {
    for (kind, key_bytes, value_bytes, max_entries, bytes) in [
        (MapKind::Array, 4, 8, 100, 1200),
        (MapKind::Ringbuf, 0, 0, 1 << 30, 1 << 30),
        (MapKind::Hash, 4, u32::MAX, 1, (1 << 32) + 3),
        (MapKind::Hash, u32::MAX, u32::MAX, u32::MAX, u64::MAX),
    ] {
        let type_number = kind as u32;
        let shape = Shape { type_number, key_bytes, value_bytes, max_entries, flags: 0 };
        assert_eq!(shape.bytes(), bytes, "{shape:?}");
    }
}
