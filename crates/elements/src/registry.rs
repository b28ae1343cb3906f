//! All classes of the library.

use europa_engine::Registry;

/// A registry with all classes of this library, one line each, by name.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.add::<crate::arp_querier::ARPQuerier>();
    registry.add::<crate::arp_responder::ARPResponder>();
    registry.add::<crate::check_ip6_header::CheckIP6Header>();
    registry.add::<crate::check_ip_header::CheckIPHeader>();
    registry.add::<crate::check_length::CheckLength>();
    registry.add::<crate::check_paint::CheckPaint>();
    registry.add::<crate::classifier::Classifier>();
    registry.add::<crate::counter::Counter>();
    registry.add::<crate::dec_ip6_hlim::DecIP6HLIM>();
    registry.add::<crate::dec_ip_ttl::DecIPTTL>();
    registry.add::<crate::direct_ip_lookup::DirectIPLookup>();
    registry.add::<crate::discard::Discard>();
    registry.add::<crate::drop_broadcasts::DropBroadcasts>();
    registry.add::<crate::drop_martians::DropMartians>();
    registry.add::<crate::ether_encap::EtherEncap>();
    registry.add::<crate::ether_switch::EtherSwitch>();
    registry.add::<crate::fix_ip_src::FixIPSrc>();
    registry.add::<crate::from_device::FromDevice>();
    registry.add::<crate::from_host::FromHost>();
    registry.add::<crate::get_ip6_address::GetIP6Address>();
    registry.add::<crate::get_ip_address::GetIPAddress>();
    registry.add::<crate::icmp6_error::ICMP6Error>();
    registry.add::<crate::icmp6_ping_responder::ICMP6PingResponder>();
    registry.add::<crate::icmp_error::ICMPError>();
    registry.add::<crate::icmp_ping_responder::ICMPPingResponder>();
    registry.add::<crate::ip6_nd_advertiser::IP6NDAdvertiser>();
    registry.add::<crate::ip6_nd_solicitor::IP6NDSolicitor>();
    registry.add::<crate::ip6_forward::IP6Forward>();
    registry.add::<crate::ip_forward::IPForward>();
    registry.add::<crate::ip_fragmenter::IPFragmenter>();
    registry.add::<crate::ip_gw_options::IPGWOptions>();
    registry.add::<crate::ip_print::IPPrint>();
    registry.add::<crate::idle::Idle>();
    registry.add::<crate::infinite_source::InfiniteSource>();
    registry.add::<crate::lookup_ip6_route::LookupIP6Route>();
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
    registry.add_pass(&crate::passes::Ingress);
    registry.add_pass(&crate::passes::Egress);
    registry
}
