// A two-interface IP router of the standard form.
define($ADDR0 10.0.0.1, $MAC0 02:00:00:00:00:01, $NET0 10.0.0.0/24)
define($ADDR1 10.0.1.1, $MAC1 02:00:00:00:00:02, $NET1 10.0.1.0/24)

// One interface: from the device to the router and back.
elementclass Interface { $device, $address, $mac, $color |
    from :: FromDevice($device)
        -> c :: Classifier(12/0806 20/0001, 12/0806 20/0002, 12/0800, -);
    arpq :: ARPQuerier($address, $mac) -> out :: Queue(200) -> ToDevice($device);
    c[0] -> ARPResponder($address $mac) -> out;
    c[1] -> [1] arpq;
    c[2] -> Paint($color) -> Strip(14) -> CheckIPHeader(INTERFACES $address/24) -> output;
    c[3] -> Print("$device non-IP") -> Discard;
    input -> arpq;
}

// What every packet that leaves by one interface passes.
elementclass Path { $address, $color |
    input -> DropBroadcasts
        -> cp :: PaintTee($color)
        -> gio :: IPGWOptions($address)
        -> FixIPSrc($address)
        -> dt :: DecIPTTL
        -> fr :: IPFragmenter(1500)
        -> output;
    cp[1] -> ICMPError($address, redirect, host) -> [1] output;
    gio[1] -> ICMPError($address, parameterproblem) -> [1] output;
    dt[1] -> ICMPError($address, timeexceeded) -> [1] output;
    fr[1] -> ICMPError($address, unreachable, needfrag) -> [1] output;
}

if0 :: Interface(eth0, $ADDR0, $MAC0, 1);
if1 :: Interface(eth1, $ADDR1, $MAC1, 2);

rt :: StaticIPLookup($ADDR0/32 0, $ADDR1/32 0, $NET0 1, $NET1 2);
ip :: GetIPAddress(16) -> rt;
if0, if1 -> ip;

rt[0] -> EtherEncap(0x0800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> ToHost;
rt[1] -> path0 :: Path($ADDR0, 1) -> if0;
rt[2] -> path1 :: Path($ADDR1, 2) -> if1;
path0[1], path1[1] -> rt;
