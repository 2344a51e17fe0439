package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// proxyProtocol is how a listener takes PROXY protocol headers.
func proxyProtocol(dst **ProxyProtocol) object {
	pp := &ProxyProtocol{}
	needed := true
	const example = "[10.0.0.0/8]"
	return object{
		fields: []field{
			{"trusted", required, list{example: example, atLeast: 1, item: func() shape { return network(&pp.Trusted) }}},
			{"required", "true", truth(&needed)},
		},
		missing: map[string]string{"trusted": "list the addresses of the balancers in front of this listener, e.g. trusted: " + example},
		done: func(p *parser, at place) {
			*dst = pp
			pp.Optional = !needed
			for i, prefix := range pp.Trusted {
				if prefix.Bits() == 0 {
					p.warnAt(fmt.Sprintf("%s[%d]", at.key("trusted"), i), "trusts everybody: "+trustingAll)
				}
			}
			for _, family := range []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)} {
				if !slices.Contains(pp.Trusted, family) && covered(family, pp.Trusted) {
					p.warnAt(at.key("trusted"), "trusts everybody, for together the networks are %s: %s", family, trustingAll)
				}
			}
		},
	}
}

const trustingAll = "any client may say that it has another address; list the balancers only"

// covered reports whether every address of a network is in one of others.
func covered(whole netip.Prefix, by []netip.Prefix) bool {
	var inside []netip.Prefix
	for _, each := range by {
		switch {
		case !each.Overlaps(whole):
		case each.Bits() <= whole.Bits():
			return true
		default:
			inside = append(inside, each)
		}
	}
	if inside == nil {
		return false
	}
	first := netip.PrefixFrom(whole.Addr(), whole.Bits()+1)
	octets := whole.Addr().AsSlice()
	octets[whole.Bits()/8] |= 0x80 >> (whole.Bits() % 8)
	second, _ := netip.AddrFromSlice(octets)
	return covered(first, inside) && covered(netip.PrefixFrom(second, whole.Bits()+1), inside)
}

// network is an IP address or a network, added to a list.
func network(dst *[]netip.Prefix) scalar {
	const want = "an IP address or a network, e.g. 10.0.0.0/8 or 2001:db8::1"
	return scalar{kind: "network", want: want, set: func(v string) error {
		prefix, err := netip.ParsePrefix(v)
		if err != nil {
			var ip netip.Addr
			if ip, err = netip.ParseAddr(v); err == nil {
				prefix = netip.PrefixFrom(ip, ip.BitLen())
			}
		}
		switch {
		case err != nil || strings.Contains(v, "%"): // a zone means something on one host only
			return fmt.Errorf("is %q; give %s", clip(v), want)
		case prefix.Addr().Is4In6():
			return fmt.Errorf("is %q; write it as IPv4, e.g. 10.0.0.0/8", clip(v))
		case prefix != prefix.Masked():
			return fmt.Errorf("is %q, an address in a network; give the network, %s, or the address alone", clip(v), prefix.Masked())
		}
		*dst = append(*dst, prefix)
		return nil
	}}
}
