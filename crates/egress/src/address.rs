//! Classification of IP addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kind of network that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AddressClass {
    /// The public Internet.
    Public,
    /// This machine.
    Loopback,
    /// A private network (RFC 1918, RFC 4193).
    Private,
    /// The shared address space of carrier-grade NAT (RFC 6598).
    Shared,
    /// The local link, which includes cloud metadata services.
    LinkLocal,
    /// A cloud metadata service outside the link-local range.
    Metadata,
    /// The unspecified address or "this network".
    Unspecified,
    /// Multicast or broadcast.
    Multicast,
    /// Reserved for documentation (RFC 5737, RFC 3849).
    Documentation,
    /// Reserved for benchmarks, protocols or future use.
    Reserved,
    /// An IPv4 address embedded in IPv6, or a tunnel to one.
    Translated,
}

impl AddressClass {
    /// The name of the class in messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::Shared => "shared by a provider's translation",
            Self::LinkLocal => "link-local",
            Self::Metadata => "a cloud metadata service",
            Self::Unspecified => "unspecified",
            Self::Multicast => "multicast or broadcast",
            Self::Documentation => "reserved for documentation",
            Self::Reserved => "reserved",
            Self::Translated => "an IPv4 address inside an IPv6 one",
        }
    }

    /// Returns `true` if an allowed host may resolve to such an address. Link-local, metadata,
    /// multicast and reserved addresses are refused for every host, because no run needs them.
    #[must_use]
    pub fn can_be_allowed(self) -> bool {
        matches!(self, Self::Loopback | Self::Private | Self::Shared)
    }
}

/// Returns the class of an address.
///
/// Source: the IANA special-purpose registries for IPv4 and IPv6 (RFC 6890).
#[must_use]
pub fn classify(address: IpAddr) -> AddressClass {
    match address {
        IpAddr::V4(address) => classify_v4(address),
        IpAddr::V6(address) => classify_v6(address),
    }
}

/// Alibaba's metadata service, inside the shared range, which can be allowed.
const ALIBABA_METADATA: [u8; 4] = [100, 100, 100, 200];
/// Oracle's metadata service, inside a protocol range.
const ORACLE_METADATA: [u8; 4] = [192, 0, 0, 192];
/// The metadata service of Azure's hosts, inside the public range.
const AZURE_METADATA: [u8; 4] = [168, 63, 129, 16];
/// Amazon's metadata service over IPv6, inside the private range, which can be allowed.
const AMAZON_METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

fn classify_v4(address: Ipv4Addr) -> AddressClass {
    use AddressClass as Class;
    match address.octets() {
        ALIBABA_METADATA | ORACLE_METADATA | AZURE_METADATA => Class::Metadata,
        [0, ..] => Class::Unspecified,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private,
        [100, 64..=127, ..] => Class::Shared,
        [127, ..] => Class::Loopback,
        [169, 254, ..] => Class::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Class::Documentation,
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] => Class::Reserved,
        [224..=239, ..] | [255, 255, 255, 255] => Class::Multicast,
        [240..=255, ..] => Class::Reserved,
        _ => Class::Public,
    }
}

fn classify_v6(address: Ipv6Addr) -> AddressClass {
    use AddressClass as Class;
    if address == AMAZON_METADATA_V6 {
        return Class::Metadata;
    }
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        // Compatible, mapped and translated forms, which no resolver should return.
        [0, 0, 0, 0, 0, 0, _, _] | [0, 0, 0, 0, 0, 0xffff, _, _] | [0, 0, 0, 0, 0xffff, 0, ..] => {
            Class::Translated
        }
        // NAT64, through which a network without IPv4 reaches all IPv4 addresses: the embedded
        // address decides.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => match classify_v4(embedded(high, low)) {
            Class::Public => Class::Public,
            _ => Class::Translated,
        },
        // Local NAT64, Teredo, 6to4.
        [0x64, 0xff9b, 1, ..] | [0x2001, 0, ..] | [0x2002, ..] => Class::Translated,
        [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => Class::Documentation,
        [0x2001, 1..=0x01ff, ..] | [0x100, ..] | [0x5f00, ..] => Class::Reserved,
        [0xfc00..=0xfdff, ..] => Class::Private,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xfec0..=0xfeff, ..] => Class::Reserved,
        [0xff00..=0xffff, ..] => Class::Multicast,
        [0x2000..=0x3fff, ..] => Class::Public,
        _ => Class::Reserved,
    }
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    let [a, b] = high.to_be_bytes();
    let [c, d] = low.to_be_bytes();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;
    use AddressClass as Class;

    const TABLE: &[(&str, Class)] = &[
        ("127.0.0.1", Class::Loopback),
        ("127.255.255.254", Class::Loopback),
        ("0.0.0.0", Class::Unspecified),
        ("0.1.2.3", Class::Unspecified),
        ("10.0.0.1", Class::Private),
        ("172.16.0.1", Class::Private),
        ("172.31.255.255", Class::Private),
        ("172.32.0.1", Class::Public),
        ("192.168.1.1", Class::Private),
        ("100.64.0.1", Class::Shared),
        ("100.100.100.200", Class::Metadata),
        ("100.128.0.1", Class::Public),
        ("168.63.129.16", Class::Metadata),
        ("169.254.169.254", Class::LinkLocal),
        ("192.0.0.192", Class::Metadata),
        ("192.0.0.8", Class::Reserved),
        ("192.0.2.1", Class::Documentation),
        ("198.51.100.7", Class::Documentation),
        ("203.0.113.9", Class::Documentation),
        ("198.18.0.1", Class::Reserved),
        ("192.88.99.1", Class::Reserved),
        ("224.0.0.1", Class::Multicast),
        ("239.255.255.255", Class::Multicast),
        ("240.0.0.1", Class::Reserved),
        ("255.255.255.255", Class::Multicast),
        ("8.8.8.8", Class::Public),
        ("93.184.215.14", Class::Public),
        ("::", Class::Unspecified),
        ("::1", Class::Loopback),
        ("::10.0.0.1", Class::Translated),
        ("::ffff:10.0.0.1", Class::Translated),
        ("::ffff:127.0.0.1", Class::Translated),
        ("::ffff:8.8.8.8", Class::Translated),
        ("::ffff:0:169.254.169.254", Class::Translated),
        ("64:ff9b::10.0.0.1", Class::Translated),
        ("64:ff9b::a9fe:a9fe", Class::Translated),
        ("64:ff9b::8.8.8.8", Class::Public),
        ("64:ff9b:1::8.8.8.8", Class::Translated),
        ("2001::1", Class::Translated),
        ("2002:7f00:1::", Class::Translated),
        ("2001:db8::1", Class::Documentation),
        ("3fff::1", Class::Documentation),
        ("2001:2::1", Class::Reserved),
        ("100::1", Class::Reserved),
        ("fc00::1", Class::Private),
        ("fd12:3456::1", Class::Private),
        ("fd00:ec2::254", Class::Metadata),
        ("fe80::1", Class::LinkLocal),
        ("fec0::1", Class::Reserved),
        ("ff02::1", Class::Multicast),
        ("2606:4700::1111", Class::Public),
        ("4000::1", Class::Reserved),
    ];

    #[test]
    fn each_range_has_its_class() {
        for (text, class) in TABLE {
            let address: IpAddr = text.parse().expect("an address");
            assert_eq!(classify(address), *class, "{text}");
        }
    }

    #[test]
    fn nothing_that_can_be_allowed_reaches_metadata() {
        for (text, class) in TABLE {
            if text.contains("169.254") || *class == Class::Metadata {
                assert!(!class.can_be_allowed(), "{text}");
            }
        }
    }
}
