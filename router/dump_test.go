package router

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/shardmq/shardmq/shards"
)

// Dump is all that a connection remembers, as text: two that will behave the same from now on have the same. Left out is what the next
// frame begins anew, how much memory is kept, and what belongs to the topology, which is named only.
func (c *Conn) Dump() string {
	d := dumper{seen: map[uintptr]int{}}
	d.value(reflect.ValueOf(c).Elem())
	return d.String()
}

// fleeting are fields without a meaning between two messages, or only for those who own them.
var fleeting = []string{"Conn.o", "Conn.dir", "Conn.up", "Conn.down", "Conn.scratch", "Conn.lastName", "Conn.lastRoute", "Conn.downName", "Conn.downRoute",
	"channel.keys", "channel.hashed", "channel.pending",
	"ring.tags", "ring.atts", "ring.first"}

type dumper struct {
	strings.Builder
	seen map[uintptr]int
}

func (d *dumper) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		d.pointer(v)
	case reflect.Struct:
		d.fields(v)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
			fmt.Fprintf(d, "%q", v.Bytes())
			return
		}
		for i := range v.Len() {
			d.value(v.Index(i))
			d.WriteString("; ")
		}
	case reflect.Map:
		var all []string
		for _, k := range v.MapKeys() {
			in := dumper{seen: d.seen}
			in.value(k)
			in.WriteString(": ")
			in.value(v.MapIndex(k))
			all = append(all, in.String())
		}
		slices.Sort(all)
		d.WriteString(strings.Join(all, ", "))
	case reflect.Func, reflect.Interface:
		fmt.Fprint(d, !v.IsNil())
	default:
		fmt.Fprint(d, v)
	}
}

func (d *dumper) pointer(v reflect.Value) {
	switch {
	case v.IsNil():
		d.WriteString("-")
	case v.Type() == reflect.TypeFor[*shards.Exchange]():
		d.WriteString(v.Elem().FieldByName("Name").String())
	case strings.HasPrefix(v.Type().String(), "*shards."):
		d.WriteString(v.Type().String())
	case d.seen[v.Pointer()] > 0:
		fmt.Fprint(d, "#", d.seen[v.Pointer()])
	default:
		d.seen[v.Pointer()] = len(d.seen) + 1
		d.value(v.Elem())
	}
}

func (d *dumper) fields(v reflect.Value) {
	if r, is := ringIn(v); is {
		d.ring(r)
	}
	d.WriteString("{")
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if full := v.Type().Name() + "." + name; slices.Contains(fleeting, full) || full == "channel.emptied" && !v.FieldByName("down").FieldByName("wantHeader").Bool() {
			continue
		}
		d.WriteString(name + "=")
		d.value(v.Field(i))
		d.WriteString(" ")
	}
	d.WriteString("}\n")
}

// ringIn returns the ring that v is.
func ringIn(v reflect.Value) (*ring, bool) {
	if v.Type() != reflect.TypeFor[ring]() || !v.CanAddr() {
		return nil, false
	}
	return (*ring)(v.Addr().UnsafePointer()), true
}

// ring writes what is in it, gaps left out, wherever it begins.
func (d *dumper) ring(r *ring) {
	for i := range r.n {
		if at := (r.first + i) & (len(r.tags) - 1); r.atts[at] != nil {
			fmt.Fprint(d, r.tags[at], "=")
			d.value(reflect.ValueOf(r.atts[at]))
			d.WriteString(", ")
		}
	}
}
