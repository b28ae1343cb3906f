/* An address translator between an inner and an outer network. */
require(package "nat-elements");
AddressInfo(
    outer 192.0.2.1 02:00:00:00:00:10,   // the public side
    inner 10.0.0.1/8 02:00:00:00:00:11)

elementclass Gateway { $name, QUEUE $capacity |
    FromDevice($name) -> ip :: Classifier(12/0800, 12/0806 20/0001, 12/0806 20/0002, -)
    input -> encap :: ARPQuerier($name) -> q :: Queue($capacity) -> ToDevice($name)
    ip [0] -> Strip(14) -> CheckIPHeader(CHECKSUM true) -> output
    ip [1] -> ARPResponder($name) -> q
    ip [2] -> [1] encap
    ip [3] -> Discard
}

out :: Gateway(outer, QUEUE 100)
in :: Gateway(inner, QUEUE 50)

rw :: IPRewriter(pattern outer 1024-65535 - - 0 1, drop)

out -> from_out :: IPClassifier(tcp or udp, -)
    => ( input[0] -> [1] output; input[1] -> Print(other) -> Discard; Idle -> output )
    => rw;
in -> from_in :: IPClassifier(dst net inner and (tcp or udp), dst net inner, -)
    => ( [0], [1] -> hairpin :: Counter -> ToHost; [2] -> output ) -> rw;

rw => out, in;
