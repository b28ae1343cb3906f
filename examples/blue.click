// The IPv4 router of the tenant blue in two-slices.yaml: the standard router of the Click
// paper (Kohler et al., TOCS 2000, figure 8) for two interfaces.
//
// A packet comes in at the top and takes the first turn that is not "ordinary":
//
//   FromDevice ─ Classifier ┬ ARP request ─ ARPResponder ─ back out
//                           ├ ARP reply ─ ARPQuerier
//                           └ IP ─ Paint ─ Strip ─ CheckIPHeader ─ GetIPAddress ─ routes
//   routes ┬ for us ─ ICMPPingResponder ─ routes
//          └ through an interface ─ DropBroadcasts ─ PaintTee ─ IPGWOptions ─ FixIPSrc
//            ─ DecIPTTL ─ IPFragmenter ─ ARPQuerier ─ Queue ─ ToDevice

// What comes in: ARP requests, ARP replies, IPv4, the rest.
from_in :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
from_out :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
FromDevice(in) -> from_in;
FromDevice(out) -> from_out;

// What goes out.
to_in :: Queue(1024) -> ToDevice(in);
to_out :: Queue(1024) -> ToDevice(out);

// ARP.
arp_in :: ARPQuerier(10.0.1.1, 02:00:00:02:00:01);
arp_out :: ARPQuerier(10.0.2.1, 02:00:00:02:00:02);
from_in[0] -> ARPResponder(10.0.1.1 02:00:00:02:00:01) -> to_in;
from_out[0] -> ARPResponder(10.0.2.1 02:00:00:02:00:02) -> to_out;
from_in[1] -> [1]arp_in;
from_out[1] -> [1]arp_out;
arp_in -> to_in;
arp_out -> to_out;

// Neither ARP nor IPv4.
from_in[3] -> Discard;
from_out[3] -> Discard;

// Where to: 0 to this router itself, 1 through in, 2 through out, 3 nowhere.
routes :: StaticIPLookup(
	10.0.1.1/32 0, 10.0.1.0/32 0, 10.0.1.255/32 0,
	10.0.2.1/32 0, 10.0.2.0/32 0, 10.0.2.255/32 0,
	10.0.1.0/24 1,
	10.0.2.0/24 2,
	0.0.0.0/0 3);

// The paint says which interface a packet came through, for redirects.
ip :: Strip(14)
	-> CheckIPHeader(INTERFACES 10.0.1.1/24 10.0.2.1/24)
	-> GetIPAddress(16)
	-> routes;
from_in[2] -> Paint(1) -> ip;
from_out[2] -> Paint(2) -> ip;

// To this router: it answers pings and nothing else. An answer that leaves where the
// question came in is no reason for a redirect, so the paint is taken off.
ping :: ICMPPingResponder;
routes[0] -> ping;
ping[0] -> Paint(0) -> routes;
ping[1] -> Discard;

// Through in.
routes[1] -> DropBroadcasts
	-> redirect_in :: PaintTee(1)
	-> options_in :: IPGWOptions(10.0.1.1)
	-> FixIPSrc(10.0.1.1)
	-> ttl_in :: DecIPTTL
	-> fragments_in :: IPFragmenter(1500)
	-> arp_in;
redirect_in[1] -> ICMPError(10.0.1.1, redirect, host) -> routes;
options_in[1] -> ICMPError(10.0.1.1, parameterproblem) -> routes;
ttl_in[1] -> ICMPError(10.0.1.1, timeexceeded) -> routes;
fragments_in[1] -> ICMPError(10.0.1.1, unreachable, needfrag) -> routes;

// Through out.
routes[2] -> DropBroadcasts
	-> redirect_out :: PaintTee(2)
	-> options_out :: IPGWOptions(10.0.2.1)
	-> FixIPSrc(10.0.2.1)
	-> ttl_out :: DecIPTTL
	-> fragments_out :: IPFragmenter(1500)
	-> arp_out;
redirect_out[1] -> ICMPError(10.0.2.1, redirect, host) -> routes;
options_out[1] -> ICMPError(10.0.2.1, parameterproblem) -> routes;
ttl_out[1] -> ICMPError(10.0.2.1, timeexceeded) -> routes;
fragments_out[1] -> ICMPError(10.0.2.1, unreachable, needfrag) -> routes;

// Nowhere.
routes[3] -> ICMPError(10.0.1.1, unreachable, net) -> routes;
