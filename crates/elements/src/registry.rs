//! All classes of the library.

use europa_engine::Registry;

/// A registry with all classes of this library, one line each, by name.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.add::<crate::check_ip_header::CheckIPHeader>();
    registry.add::<crate::check_paint::CheckPaint>();
    registry.add::<crate::classifier::Classifier>();
    registry.add::<crate::counter::Counter>();
    registry.add::<crate::dec_ip_ttl::DecIPTTL>();
    registry.add::<crate::direct_ip_lookup::DirectIPLookup>();
    registry.add::<crate::discard::Discard>();
    registry.add::<crate::drop_broadcasts::DropBroadcasts>();
    registry.add::<crate::ether_encap::EtherEncap>();
    registry.add::<crate::from_device::FromDevice>();
    registry.add::<crate::get_ip_address::GetIPAddress>();
    registry.add::<crate::ip_print::IPPrint>();
    registry.add::<crate::idle::Idle>();
    registry.add::<crate::infinite_source::InfiniteSource>();
    registry.add::<crate::mark_ip_header::MarkIPHeader>();
    registry.add::<crate::null::Null>();
    registry.add::<crate::paint::Paint>();
    registry.add::<crate::paint_tee::PaintTee>();
    registry.add::<crate::print::Print>();
    registry.add::<crate::queue::Queue>();
    registry.add::<crate::radix_ip_lookup::RadixIPLookup>();
    registry.add::<crate::rated_source::RatedSource>();
    registry.add::<crate::set_ip_address::SetIPAddress>();
    registry.add::<crate::static_ip_lookup::StaticIPLookup>();
    registry.add::<crate::strip::Strip>();
    registry.add::<crate::switch::Switch>();
    registry.add::<crate::tee::Tee>();
    registry.add::<crate::to_device::ToDevice>();
    registry.add::<crate::to_host::ToHost>();
    registry.add::<crate::unqueue::Unqueue>();
    registry.add::<crate::unstrip::Unstrip>();
    registry
}
