package config

import (
	"fmt"
	"net/netip"
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
					p.warnAt(fmt.Sprintf("%s[%d]", at.key("trusted"), i), "trusts everybody: any client may say that it has another address; list the balancers only")
				}
			}
		},
	}
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
