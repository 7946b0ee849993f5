//! Which addresses may be dialled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, d: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6(a: u16, b: u16, c: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), prefix)
}

/// IPv4 that is not a public unicast network. Sources: the IANA special-purpose registry and two lists of peers.
const DENIED_V4: &[Ipv4Net] = &[
    v4(0, 0, 0, 0, 8),        // "this" network; 0.0.0.0 reaches loopback on Linux (RFC 1122)
    v4(10, 0, 0, 0, 8),       // private (RFC 1918)
    v4(100, 64, 0, 0, 10),    // carrier NAT, Tailscale, Alibaba metadata (RFC 6598)
    v4(127, 0, 0, 0, 8),      // loopback
    v4(168, 63, 129, 16, 32), // Azure WireServer: a public address that is in no registry
    v4(169, 254, 0, 0, 16),   // link-local and cloud metadata (RFC 3927)
    v4(172, 16, 0, 0, 12),    // private (RFC 1918)
    v4(192, 0, 0, 0, 24),     // IETF protocol assignments, Oracle metadata, NAT64 discovery (RFC 6890)
    v4(192, 0, 2, 0, 24),     // documentation (RFC 5737)
    v4(192, 31, 196, 0, 24),  // AS112 (RFC 7535)
    v4(192, 52, 193, 0, 24),  // AMT (RFC 7450)
    v4(192, 88, 99, 0, 24),   // 6to4 relays (RFC 7526)
    v4(192, 168, 0, 0, 16),   // private (RFC 1918)
    v4(192, 175, 48, 0, 24),  // AS112 (RFC 7534)
    v4(198, 18, 0, 0, 15),    // benchmarking (RFC 2544)
    v4(198, 51, 100, 0, 24),  // documentation (RFC 5737)
    v4(203, 0, 113, 0, 24),   // documentation (RFC 5737)
    v4(224, 0, 0, 0, 4),      // multicast (RFC 5771)
    v4(240, 0, 0, 0, 4),      // reserved, broadcast (RFC 1112)
];

/// The only IPv6 block that IANA gives out for global unicast. Everything outside is denied without being listed:
/// loopback, mapped and compatible forms, NAT64, unique local, link-local, site-local, multicast, what comes later.
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

/// What is not a receiver inside [`GLOBAL_V6`].
const DENIED_V6: &[Ipv6Net] = &[
    v6(0x2001, 0, 0, 23), // IETF protocol assignments: Teredo, benchmarking, AMT, AS112, ORCHID, DRIP
    v6(0x2001, 0xdb8, 0, 32), // documentation (RFC 3849)
    v6(0x2002, 0, 0, 16), // 6to4, embeds an IPv4 address (RFC 3056)
    v6(0x2620, 0x4f, 0x8000, 48), // AS112 (RFC 7534)
    v6(0x3ffe, 0, 0, 16), // 6bone, returned
    v6(0x3fff, 0, 0, 20), // documentation (RFC 9637)
];

/// Link-local and metadata services: no allow list opens these, because nothing there is a receiver and one answer
/// from there is the key to the whole account.
const NEVER_V4: &[Ipv4Net] = &[
    v4(169, 254, 0, 0, 16),
    v4(168, 63, 129, 16, 32),   // Azure
    v4(100, 100, 100, 200, 32), // Alibaba
    v4(192, 0, 0, 192, 32),     // Oracle
];
const NEVER_V6: &[Ipv6Net] = &[
    v6(0xfe80, 0, 0, 10),
    v6(0xfd00, 0xec2, 0, 32), // AWS: metadata, time, DNS, EKS
    Ipv6Net::new_assert(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254), 128), // GCP
    Ipv6Net::new_assert(Ipv6Addr::new(0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42), 128), // Scaleway
];

/// Which addresses may be dialled: public unicast, and what the operator adds or removes.
///
/// The default allows public addresses only. In this order: link-local and metadata addresses are always denied,
/// `deny_cidrs` denies, `allow_loopback` and `allow_cidrs` allow, the built-in list decides the rest. An IPv4-mapped
/// IPv6 address is judged as the IPv4 address that it reaches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AddressPolicy {
    /// Networks of internal receivers. Log them at start: each one is a way from a tenant's URL into it.
    pub allow_cidrs: Vec<IpNet>,
    /// Further networks that nobody may reach, such as mailrail's own addresses.
    pub deny_cidrs: Vec<IpNet>,
    /// Whether `127.0.0.0/8` and `::1` may be reached: for development on one machine.
    pub allow_loopback: bool,
}

impl AddressPolicy {
    /// Whether `ip` may be dialled.
    #[must_use]
    pub fn allows(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        if is_never_allowed(ip) || self.deny_cidrs.iter().any(|net| net.contains(&ip)) {
            return false;
        }
        self.allows_by_exception(ip) || is_public(ip)
    }

    /// Whether the operator opened `ip`, public or not.
    pub(crate) fn allows_by_exception(&self, ip: IpAddr) -> bool {
        let ip = ip.to_canonical();
        (self.allow_loopback && ip.is_loopback()) || self.allow_cidrs.iter().any(|net| net.contains(&ip))
    }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !DENIED_V4.iter().any(|net| net.contains(&ip)),
        IpAddr::V6(ip) => GLOBAL_V6.contains(&ip) && !DENIED_V6.iter().any(|net| net.contains(&ip)),
    }
}

fn is_never_allowed(ip: IpAddr) -> bool {
    let never_v4 = |ip: &Ipv4Addr| NEVER_V4.iter().any(|net| net.contains(ip));
    match ip {
        IpAddr::V4(ip) => never_v4(&ip),
        IpAddr::V6(ip) => {
            NEVER_V6.iter().any(|net| net.contains(&ip)) || embedded(ip).as_ref().is_some_and(never_v4)
        }
    }
}

/// The IPv4 address inside a transition address that an operator may have allowed (NAT64 with a /96, 6to4, translated,
/// compatible): a metadata service stays closed behind it too.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, high, low] = ip.segments();
    let join = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match (a, b, c, d, e, f) {
        (0x2002, ..) => join(b, c),
        (0x64, 0xff9b, ..) | (0, 0, 0, 0, 0xffff | 0, 0) => join(high, low),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
