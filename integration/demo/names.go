package main

import (
	"slices"
	"strings"
)

// nodeNames are the names that the broker's node may have. A private node's is known; of another broker AMQP tells
// only the cluster's name, which is by default that of its first node, with the long host name.
func (d *demo) nodeNames() []string {
	if d.broker.Name != "" {
		return []string{d.broker.Name}
	}
	cluster, _ := d.direct.Properties["cluster_name"].(string)
	host, _, _ := strings.Cut(d.broker.Addr, ":")
	base, long, _ := strings.Cut(cluster, "@")
	var names []string
	for _, h := range []string{long, "localhost", host} {
		short, _, _ := strings.Cut(h, ".")
		for _, b := range []string{base, "rabbit"} {
			for _, name := range []string{b + "@" + h, b + "@" + short} {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names
}
