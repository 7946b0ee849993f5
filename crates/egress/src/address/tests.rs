//! Every listed network and its neighbours. No packet is sent.

use super::*;

const DENY: &str = "0.0.0.0 0.1.2.3 10.0.0.0 10.255.255.255 100.64.0.0 100.100.100.200 100.127.255.255 127.0.0.1
    127.255.255.254 168.63.129.16 169.254.0.1 169.254.169.254 169.254.170.2 169.254.170.23 172.16.0.0 172.31.255.255
    192.0.0.1 192.0.0.9 192.0.0.192 192.0.2.1 192.31.196.1 192.52.193.1 192.88.99.1 192.168.0.1 192.175.48.1 198.18.0.1
    198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255 :: ::1 ::127.0.0.1
    ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:a9fe:a9fe ::ffff:10.0.0.1 ::ffff:0:127.0.0.1 64:ff9b::a9fe:a9fe
    64:ff9b::808:808 64:ff9b:1::1 100::1 100:0:0:1::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1
    2001:20::1 2001:1::1 2001:3::1 2001:4:112::1 2001:db8::1 2002:7f00:1::1 2002:a9fe:a9fe::1 2002:808:808::1
    2620:4f:8000::1 3ffe::1 3fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd7a:115c:a1e0::1
    fe80::1 febf::1 fec0::1 ff02::1 ff0e::1";

const ALLOW: &str = "1.1.1.1 8.8.8.8 9.9.9.9 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1 168.63.129.15
    168.63.129.17 169.253.255.255 169.255.0.1 172.15.255.255 172.32.0.0 191.255.255.255 192.0.1.1 192.0.3.1
    192.167.255.255 192.169.0.1 198.17.255.255 198.20.0.1 198.51.99.1 198.51.101.1 203.0.112.1 203.0.114.1
    223.255.255.255 2001:200::1 2001:4860:4860::8888 2003::1 2606:4700:4700::1111 2620:4f:8001::1 2a00:1450::1 3ffd::1
    ::ffff:8.8.8.8 ::ffff:808:808";

/// Inside `allow_cidrs` of everything, and still closed.
const NEVER: &str = "169.254.169.254 169.254.170.2 169.254.0.1 169.254.42.42 168.63.129.16 100.100.100.200 192.0.0.192
    ::ffff:169.254.169.254 fe80::1 febf::1 fd00:ec2::254 fd00:ec2::23 fd20:ce::254 fd00:42::42 64:ff9b::a9fe:a9fe
    64:ff9b:1::a9fe:a9fe 2002:a9fe:a9fe::1 ::169.254.169.254 ::ffff:0:169.254.169.254";

fn ips(list: &str) -> impl Iterator<Item = IpAddr> + '_ {
    list.split_whitespace().map(|text| text.parse().unwrap())
}

fn nets(list: &[&str]) -> Vec<IpNet> {
    list.iter().map(|text| text.parse().unwrap()).collect()
}

/// N17, X02: without settings only public unicast addresses are allowed.
#[test]
fn n17_the_default_policy_allows_public_unicast_only() {
    let policy = AddressPolicy::default();
    assert_eq!((ips(DENY).count(), ips(ALLOW).count()), (73, 34), "no vector got lost");
    for ip in ips(DENY) {
        assert!(!policy.allows(ip), "{ip} must be denied");
    }
    for ip in ips(ALLOW) {
        assert!(policy.allows(ip), "{ip} must be allowed");
    }
}

/// N17, X02: private, link-local and other special networks are denied to their edges.
#[test]
fn n17_listed_networks_are_denied_to_their_edges() {
    let policy = AddressPolicy::default();
    for net in DENIED_V4 {
        assert!(!policy.allows(net.network().into()) && !policy.allows(net.broadcast().into()), "{net}");
        let mapped = |ip: Ipv4Addr| IpAddr::V6(ip.to_ipv6_mapped());
        assert!(
            !policy.allows(mapped(net.network())) && !policy.allows(mapped(net.broadcast())),
            "{net} mapped"
        );
    }
    for net in DENIED_V6 {
        assert!(
            GLOBAL_V6.contains(net),
            "{net} is denied anyway: the entry says something else than it does"
        );
        assert!(!policy.allows(net.network().into()) && !policy.allows(net.broadcast().into()), "{net}");
    }
}

/// Torture row T08: internal receivers may be opened, metadata services never.
#[test]
fn n17_t08_metadata_stays_closed_whatever_is_allowed() {
    let policy =
        AddressPolicy { allow_cidrs: nets(&["0.0.0.0/0", "::/0"]), deny_cidrs: vec![], allow_loopback: true };
    for ip in ips(NEVER) {
        assert!(!policy.allows(ip), "{ip} must stay denied");
    }
    for ip in ips("10.0.0.9 192.168.1.1 127.0.0.1 fd12::1 ::1 64:ff9b::808:808 ::ffff:10.0.0.9 8.8.8.8") {
        assert!(policy.allows(ip), "{ip} was opened");
    }
    for net in NEVER_V4 {
        assert!(
            !AddressPolicy::default().allows(net.network().into()),
            "{net} is never allowed and yet not denied"
        );
    }
}

#[test]
fn allow_and_deny_lists_have_their_order() {
    let policy = AddressPolicy {
        allow_cidrs: nets(&["10.0.0.0/8"]),
        deny_cidrs: nets(&["10.1.0.0/16", "8.8.8.0/24", "2606:4700::/32", "127.0.0.2/32"]),
        allow_loopback: true,
    };
    for ip in ips("10.0.0.9 10.2.0.1 ::ffff:10.0.0.9 1.1.1.1 127.0.0.1 127.9.9.9 ::1 ::ffff:127.0.0.1") {
        assert!(policy.allows(ip), "{ip} must be allowed");
    }
    for ip in
        ips("10.1.2.3 ::ffff:10.1.2.3 8.8.8.8 2606:4700:4700::1111 127.0.0.2 192.168.0.1 0.0.0.0 ::127.0.0.1")
    {
        assert!(!policy.allows(ip), "{ip} must be denied");
    }
}
